"""Tiny ModelSlim folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.modelslim.config import FLOAT, KINDS
from fewbit.formats.modelslim.encode import description_of, encode
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import F32, I4, I8
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights


def tiny_modelslim(
    folder: Path,
    kind: str = "W8A8_DYNAMIC",
    size: int = 0,
    *,
    offset: float = 0,
    seed: int = 0,
    keys: dict[str, Any] | None = None,
    **changes: Any,
) -> Path:
    """A random model whose projections are of an integer `kind`, `size` columns a group (0: whole rows)."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**changes)
    stored: dict[str, DiskArray] = {}
    kinds: dict[str, str] = {}
    for name, weight in tiny_weights(config, seed).items():
        if "proj" in name and weight.ndim == 2:
            leaves = encode(tiny_tensor(weight, kind, size, offset)) | (
                _static(weight) if kind == "W8A8" else {}
            )
            new = {f"{name.removesuffix('weight')}{leaf}": array for leaf, array in leaves.items()}
        else:
            new = {name: as_disk(quantize(weight, BF16))}
        kinds |= dict.fromkeys(new, FLOAT if name in new and len(new) == 1 else kind)
        stored |= new
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    write_json(folder / "config.json", config)
    write_json(folder / "quant_model_description.json", description_of(kinds, **(keys or {})))
    return folder


def tiny_tensor(weight: Any, kind: str, size: int = 0, offset: float = 0) -> QuantTensor:
    """Symmetric codes; with an `offset` all values move by that many steps."""
    scheme = Scheme(I8 if KINDS[kind] == 8 else I4, group(size) if size else CHANNEL, scale=F32)
    tensor = quantize(weight, scheme)
    if not offset and not size:
        return tensor
    moved = np.full(tensor.parts["scale"].shape, offset, np.float32)
    with_zero = Scheme(scheme.codes, scheme.granularity, scale=F32, zero_point=F32)
    return QuantTensor(with_zero, tensor.shape, {**tensor.parts, "zero_point": moved})


def _static(weight: Any) -> dict[str, DiskArray]:
    """Activations in steps of a half around 3."""
    tensor, n = tiny_tensor(weight, "W8A8"), weight.shape[0]
    product = (tensor.parts["scale"][:, 0] * np.float32(0.5)).astype(np.float32)
    sums = tensor.parts["codes"].astype(np.int32).sum(1)
    return {
        "input_scale": DiskArray("F32", np.full(1, 0.5, np.float32)),
        "input_offset": DiskArray("F32", np.full(1, 3, np.float32)),
        "quant_bias": DiskArray("I32", (-3 * sums).astype(np.int32).reshape(n)),
        "deq_scale": DiskArray("I64", product.view(np.uint32).astype(np.int64)),
    }
