"""Tiny AutoRound folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fewbit.formats.auto_round.config import FLOATS, Settings
from fewbit.formats.auto_round.encode import MXFP4, MXFP8, config_of, encode
from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.gptq import config as gptq
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import E4M3, F32
from fewbit.spec.granularity import block
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.gptq import fixture as gptq_fixture
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights


def tiny_auto_round(
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
    if settings.packing == FLOATS:
        return quantize(weight, MXFP4 if settings.bits == 4 else MXFP8)
    if settings.block:
        return quantize(weight, Scheme(E4M3, block(*settings.block), F32))
    return gptq_fixture.tiny_tensor(weight, gptq.Settings(settings.bits, settings.group_size, settings.sym))
