"""Tiny FP-Quant folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.fp_quant.config import Settings
from fewbit.formats.fp_quant.encode import config_of, encode
from fewbit.formats.fp_quant.resolve import SCHEMES
from fewbit.schemes.arrays import Array, round_bf16
from fewbit.spec.scheme import QuantTensor
from tests.formats.stored import write_stored
from tests.formats.tiny import tiny_config, tiny_weights

MXFP4 = Settings()


def tiny_fp_quant(
    folder: Path,
    settings: Settings = MXFP4,
    *,
    seed: int = 0,
    keys: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """`keys` are added to the quantization config."""
    config = tiny_config(**changes)

    def store(_: str, weight: Array) -> dict[str, DiskArray]:
        leaves = encode(random_tensor(weight.shape, settings, seed), rotation(settings.rotated))
        if not settings.plain:
            return leaves
        rest = {leaf: array for leaf, array in leaves.items() if leaf not in ("qweight", "scales")}
        return rest | {"dqweight": DiskArray("BF16", round_bf16(weight))}

    return write_stored(
        folder, config, config_of(settings, **(keys or {})), tiny_weights(config, seed), store
    )


def rotation(size: int) -> Array:
    """Orthogonal and not symmetric, so that its transpose is another: a Hadamard matrix with its rows turned round."""
    matrix = np.ones((1, 1))
    while len(matrix) < size:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return np.roll(matrix, 1, axis=0).astype(np.float32) / np.float32(np.sqrt(size))


def random_tensor(shape: tuple[int, ...], settings: Settings, seed: int = 0) -> QuantTensor:
    (n, k), rng = shape, np.random.default_rng(seed)
    scale = rng.integers(
        *((118, 126) if settings.element == "mxfp4" else (1, 0x7F)), (n, k // settings.group)
    )
    parts = {
        "codes": rng.integers(0, 16, (n, k)).astype(np.uint8),
        "scale": scale.astype(np.uint8),
        "global_scale": np.array([1 / np.float32(3 if settings.element == "mxfp4" else 10)], np.float32),
    }
    return QuantTensor(SCHEMES[settings.element], (n, k), parts)
