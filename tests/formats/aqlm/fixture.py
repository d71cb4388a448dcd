"""Tiny AQLM folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.aqlm.config import Settings
from fewbit.formats.aqlm.encode import config_of, encode
from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.schemes.arrays import array_dtype
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.schemes.vector.scheme import aqlm, code_type
from fewbit.spec.dtype import F16
from fewbit.spec.scheme import QuantTensor
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights

SMALL = Settings(2, 8, 8)
TOOL_SIZES = (Settings(1, 16, 8), SMALL, Settings(4, 12, 8, 2))  # of those that AQLM's own code dequantized
TOOL_SHAPE = (32, 64)


def tiny_tensor(shape: tuple[int, int], settings: Settings, seed: int = 0) -> QuantTensor:
    """Random codes, codebooks and scales."""
    rng = np.random.default_rng((seed, *shape))
    scheme = aqlm(settings.books, settings.bits, settings.run, settings.rows, codebook=F16, scale=F16)
    shapes = scheme.part_shapes(*shape)
    codes = rng.integers(0, 1 << settings.bits, shapes["codes"]).astype(array_dtype(code_type(settings.bits)))
    parts = {
        "codes": codes,
        "codebook": rng.standard_normal(shapes["codebook"]).astype(np.float16),
        "scale": (rng.random(shapes["scale"]) * 0.1).astype(np.float16),
    }
    return QuantTensor(scheme, shape, parts)


def tiny_aqlm(
    folder: Path,
    settings: Settings = SMALL,
    *,
    seed: int = 0,
    keys: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A random model whose projections have codebooks; `keys` are added to the quantization config."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**changes)
    stored: dict[str, DiskArray] = {}
    plain: list[str] = []
    for name, weight in tiny_weights(config, seed).items():
        if "proj" in name:
            leaves = encode(tiny_tensor(weight.shape, settings, seed))
            stored |= {f"{name.removesuffix('weight')}{leaf}": array for leaf, array in leaves.items()}
        else:
            stored[name] = as_disk(quantize(weight, BF16))
            plain.append(name)
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    said = config_of(settings, tuple(plain), **(keys or {}))
    write_json(folder / "config.json", {**config, "quantization_config": said})
    return folder
