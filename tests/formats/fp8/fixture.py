"""Tiny FP8 folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.fp8.encode import config_of, encode
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import E4M3, F32
from fewbit.spec.granularity import block
from fewbit.spec.scheme import Scheme
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights

BLOCKS = Scheme(
    E4M3, block(48, 48), F32
)  # no size of the tiny model is a multiple: every last block is partial


def tiny_fp8(
    folder: Path,
    scheme: Scheme = BLOCKS,
    *,
    seed: int = 0,
    keys: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A random model whose projections are stored in `scheme`; `keys` are added to the quantization config."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**changes)
    stored: dict[str, DiskArray] = {}
    for name, weight in tiny_weights(config, seed).items():
        if "proj" in name and weight.ndim == 2:
            module = name.removesuffix("weight")
            stored |= {f"{module}{leaf}": array for leaf, array in encode(quantize(weight, scheme)).items()}
        else:
            stored[name] = as_disk(quantize(weight, BF16))
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    write_json(folder / "config.json", {**config, "quantization_config": config_of(scheme, **(keys or {}))})
    return folder
