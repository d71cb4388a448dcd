"""Tiny AWQ folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fewbit.formats.awq.config import Settings
from fewbit.formats.awq.encode import config_of, encode
from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import F16, I4, U4
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights


def tiny_awq(
    folder: Path, settings: Settings, *, seed: int = 0, keys: dict[str, Any] | None = None, **changes: Any
) -> Path:
    """A random model whose projections are stored as `settings` say; `keys` are added to the quantization config."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**changes)
    stored: dict[str, DiskArray] = {}
    for name, weight in tiny_weights(config, seed).items():
        if "proj" in name and weight.ndim == 2:
            leaves = encode(tiny_tensor(weight, settings), settings)
            stored |= {f"{name.removesuffix('weight')}{leaf}": array for leaf, array in leaves.items()}
        else:
            stored[name] = as_disk(quantize(weight, BF16))
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    write_json(folder / "config.json", {**config, "quantization_config": config_of(settings, **(keys or {}))})
    return folder


def tiny_tensor(weight: Any, settings: Settings) -> QuantTensor:
    shared = CHANNEL if settings.group_size == -1 else group(settings.group_size)
    if settings.version == "gemv_fast":
        return quantize(weight, Scheme(U4, shared, scale=F16, offset=F16))
    codes, zero = (U4, U4) if settings.zero_point else (I4, None)
    return quantize(weight, Scheme(codes, shared, scale=F16, zero_point=zero))
