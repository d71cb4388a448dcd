"""Tiny compressed-tensors folders for tests."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.compressed_tensors.encode import config_of, encode
from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights


def tiny_compressed(
    folder: Path,
    scheme: Scheme,
    *,
    in_bytes: bool = False,
    seed: int = 0,
    keys: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A random model whose projections have `scheme`; `keys` are added to the quantization config."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**changes)
    stored: dict[str, DiskArray] = {}
    for name, weight in tiny_weights(config, seed).items():
        if "proj" in name and weight.ndim == 2:
            leaves = encode(tiny_tensor(weight, scheme, seed), in_bytes)
            stored |= {f"{name.removesuffix('weight')}{leaf}": array for leaf, array in leaves.items()}
        else:
            stored[name] = as_disk(quantize(weight, BF16))
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    declared = config_of(scheme, in_bytes, **(keys or {}))
    write_json(folder / "config.json", {**config, "quantization_config": declared})
    return folder


def tiny_tensor(weight: Any, scheme: Scheme, seed: int = 0) -> QuantTensor:
    """Rounded to nearest; groups shuffled over the columns where the scheme has an index, the global scale a power of two."""
    tensor = quantize(weight, replace(scheme, group_index=False))
    parts = dict(tensor.parts)
    if scheme.global_scale:
        parts["global_scale"] = np.exp2(np.round(np.log2(parts["global_scale"]))).astype(np.float32)
    if scheme.group_index:
        k = weight.shape[1]
        shuffled = np.random.default_rng(seed).permutation(k).astype(np.int32)
        parts["group_index"] = shuffled // np.int32(scheme.granularity.k)
    return QuantTensor(scheme, tensor.shape, parts)
