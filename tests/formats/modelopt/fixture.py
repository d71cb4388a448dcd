"""Tiny ModelOpt folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.modelopt.encode import config_of, encode
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import E2M1, E4M3, F32
from fewbit.spec.granularity import group
from fewbit.spec.scheme import Scheme
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights

NVFP4 = Scheme(E2M1, group(16), E4M3, global_scale=F32)


def tiny_modelopt(
    folder: Path,
    scheme: Scheme = NVFP4,
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
