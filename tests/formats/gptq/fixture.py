"""Tiny GPTQ folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.gptq.config import Settings
from fewbit.formats.gptq.encode import config_of, encode
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.spec import dtype
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights


def tiny_gptq(
    folder: Path, settings: Settings, *, seed: int = 0, keys: dict[str, Any] | None = None, **changes: Any
) -> Path:
    """A random model whose projections are stored as `settings` say; `keys` are added to the quantization config."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**changes)
    stored: dict[str, DiskArray] = {}
    for name, weight in tiny_weights(config, seed).items():
        if "proj" in name and weight.ndim == 2:
            tensor = tiny_tensor(weight, settings, seed)
            stored |= {
                f"{name.removesuffix('weight')}{leaf}": array
                for leaf, array in encode(tensor, settings).items()
            }
        else:
            stored[name] = as_disk(quantize(weight, BF16))
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    write_json(folder / "config.json", {**config, "quantization_config": config_of(settings, **(keys or {}))})
    return folder


def tiny_tensor(weight: Any, settings: Settings, seed: int = 0) -> QuantTensor:
    """Rounded to nearest; with desc_act the groups are shuffled over the columns."""
    sign = "i" if settings.sym else "u"
    scheme = Scheme(
        dtype.dtype(f"{sign}{settings.bits}"),
        CHANNEL if settings.group_size == -1 else group(settings.group_size),
        scale=dtype.F16,
        zero_point=None if settings.sym else dtype.dtype(f"u{settings.bits}"),
    )
    tensor = quantize(weight, scheme)
    if not settings.desc_act or settings.group_size == -1:
        return tensor
    k = weight.shape[1]
    index = np.random.default_rng(seed).permutation(k).astype(np.int32) // settings.group_size
    ordered = Scheme(scheme.codes, scheme.granularity, scheme.scale, scheme.zero_point, group_index=True)
    return QuantTensor(ordered, tensor.shape, {**tensor.parts, "group_index": index})
