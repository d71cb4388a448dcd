"""Tiny HQQ folders for tests."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.hqq.config import Settings
from fewbit.formats.hqq.decode import grain_of
from fewbit.formats.hqq.encode import config_of, encode
from fewbit.schemes.floats.table import narrow
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import F16, DType, dtype
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights


def tiny_hqq(
    folder: Path, settings: Settings, *, seed: int = 0, keys: dict[str, Any] | None = None, **changes: Any
) -> Path:
    """A random model whose projections are stored as `settings` say; `keys` are added to the quantization config."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**changes)
    stored: dict[str, DiskArray] = {}
    for name, weight in tiny_weights(config, seed).items():
        if "proj" in name and weight.ndim == 2:
            leaves = encode(random_tensor(weight.shape, settings, seed), settings)
            stored |= {f"{name.removesuffix('weight')}{leaf}": array for leaf, array in leaves.items()}
        else:
            stored[name] = as_disk(quantize(weight, BF16))
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    write_json(folder / "config.json", {**config, "quantization_config": config_of(settings, **(keys or {}))})
    return folder


def random_tensor(
    shape: tuple[int, ...], settings: Settings, seed: int = 0, element: DType = F16
) -> QuantTensor:
    """Any codes, scales and zero points that the settings allow; each group's own lie where the weights of it do."""
    (n, k), rng = shape, np.random.default_rng(seed)
    size = settings.group_size or (k if settings.axis == 1 else n)
    codes = dtype(f"u{ceil(settings.nbits)}")
    position = np.arange(n * k)
    groups = position // size if settings.axis == 1 else position % (n * k // size)
    grain = grain_of(settings, size, k)
    run = grain.k or k
    groups = groups[::run] if settings.channel_wise else np.zeros(1, np.int64)
    held = {}
    for role, spread in (("scale", 0.01), ("zero_point", float(codes.highest))):
        values = narrow((rng.random(n * k // size) * spread + 0.001).astype(np.float32), element)
        held[role] = values[groups].reshape(grain.scale_shape(n, k))
    top = 3 if settings.nbits == 1.58 else 1 << codes.bits
    held["codes"] = rng.integers(0, top, (n, k)).astype(np.uint8)
    scheme = Scheme(codes, grain, scale=element, zero_point=element)
    return QuantTensor(scheme, (n, k), held)
