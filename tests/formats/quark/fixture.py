"""Tiny Quark folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.quark.encode import config_of, encode
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import F32, U4
from fewbit.spec.granularity import group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights

UINT4 = Scheme(U4, group(32), F32, zero_point=U4)


def tiny_quark(
    folder: Path, scheme: Scheme = UINT4, *, reordered: bool = True, seed: int = 0, keys: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:  # fmt: skip
    """A random model whose projections are stored in `scheme`; `keys` are added to the quantization config."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**changes)
    stored: dict[str, DiskArray] = {}
    for name, weight in tiny_weights(config, seed).items():
        if "proj" in name and weight.ndim == 2:
            module = name.removesuffix("weight")
            leaves = encode(tiny_tensor(weight, scheme), reordered)
            stored |= {f"{module}{leaf}": array for leaf, array in leaves.items()}
        else:
            stored[name] = as_disk(quantize(weight, BF16))
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    declared = config_of(scheme, reordered, **(keys or {}))
    write_json(folder / "config.json", {**config, "quantization_config": declared})
    return folder


def tiny_tensor(weight: Any, scheme: Scheme) -> QuantTensor:
    """Rounded to nearest; INT4 by rows under one scale: that one a quarter, those of the rows four times as large."""
    if str(scheme) != "i4channels":
        return quantize(weight, scheme)
    tensor = quantize(weight, Scheme(scheme.codes, scheme.granularity, scheme.scale))
    parts = {**tensor.parts, "scale": tensor.parts["scale"] * 4, "global_scale": np.full(1, 0.25, np.float32)}
    return QuantTensor(scheme, tensor.shape, parts)
