"""Tiny HQQ folders for tests."""

from __future__ import annotations

from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.hqq.config import Settings
from fewbit.formats.hqq.decode import grain_of
from fewbit.formats.hqq.encode import config_of, encode
from fewbit.schemes.floats.table import narrow
from fewbit.spec.dtype import F16, DType, dtype
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.stored import write_stored
from tests.formats.tiny import tiny_config, tiny_weights


def tiny_hqq(
    folder: Path, settings: Settings, *, seed: int = 0, keys: dict[str, Any] | None = None, **changes: Any
) -> Path:
    """A random model whose projections are stored as `settings` say; `keys` are added to the quantization config."""
    config = tiny_config(**changes)
    return write_stored(
        folder, config, config_of(settings, **(keys or {})), tiny_weights(config, seed),
        lambda _, weight: encode(random_tensor(weight.shape, settings, seed), settings),
    )  # fmt: skip


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
