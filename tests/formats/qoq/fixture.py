"""Tiny QoQ folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.qoq.config import GROUP
from fewbit.formats.qoq.encode import config_of, encode
from fewbit.formats.qoq.resolve import BY_ROW, by_groups
from fewbit.spec.scheme import QuantTensor
from tests.formats.stored import write_stored
from tests.formats.tiny import tiny_config, tiny_weights

SIZES = {"hidden_size": 128, "intermediate_size": 256, "head_dim": 32, "num_hidden_layers": 1}


def tiny_qoq(
    folder: Path, grouped: bool = True, *, seed: int = 0, keys: dict[str, Any] | None = None, **changes: Any
) -> Path:
    """`keys` are added to the quantization config. The sizes are those that the kernels' tiles and groups need."""
    config = tiny_config(**{**changes, **SIZES})
    quantization = config_of(grouped, **(keys or {}))
    return write_stored(
        folder, config, quantization, tiny_weights(config, seed),
        lambda _, weight: encode(random_tensor(weight.shape, grouped, seed)),
    )  # fmt: skip


def random_tensor(shape: tuple[int, ...], grouped: bool, seed: int = 0) -> QuantTensor:
    """Second scales of 1 to 8 and zero points of whole codes, so that the inner weights have 8 bits, as QoQ wants it."""
    (n, k), rng = shape, np.random.default_rng(seed)
    codes = rng.integers(0, 16, (n, k)).astype(np.uint8)
    scale = (rng.random((n, 1)) * 0.01 + 0.001).astype(np.float16)
    if not grouped:
        zero = rng.integers(0, 16, (n, 1)).astype(np.float16)
        return QuantTensor(BY_ROW, (n, k), {"codes": codes, "scale": scale, "offset": -zero * scale})
    second = rng.integers(1, 9, (n, k // GROUP)).astype(np.int8)
    zeros = -(rng.integers(0, 16, second.shape).astype(np.int8) * second)
    parts = {"codes": codes, "scale": second, "offset": zeros, "super_scale": scale, "super_offset": -scale}
    return QuantTensor(by_groups(k), (n, k), parts)
