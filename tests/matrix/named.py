"""Random tensors of schemes that no table lists: those of layout n32parts."""

from __future__ import annotations

import numpy as np

from fewbit.schemes.arrays import array_dtype, round_bf16
from fewbit.schemes.floats.table import values
from fewbit.spec.dtype import DType
from fewbit.spec.scheme import QuantTensor, Scheme


def random_tensor(scheme: Scheme, n: int, k: int, rng: np.random.Generator) -> QuantTensor:
    """Every code as soon as there are enough of them, NaN ones left out; scales of both signs where their type has signs."""
    parts, types = {}, scheme.part_dtypes()
    for role, shape in scheme.part_shapes(n, k).items():
        kind = types[role]
        if role == "codes":
            codes = np.resize(_codes(kind), int(np.prod(shape)))
            parts[role] = rng.permutation(codes).reshape(shape)
        elif not kind.is_float:
            parts[role] = rng.integers(kind.lowest, kind.highest, shape, endpoint=True).astype(
                array_dtype(kind)
            )
        elif kind.name == "e8m0":
            parts[role] = rng.integers(110, 134, shape).astype(np.uint8)
        elif kind.bits == 8:
            parts[role] = rng.choice(_codes(kind), shape)
        else:
            floats = (rng.standard_normal(shape) * 0.01).astype(np.float32)
            parts[role] = round_bf16(floats) if kind.name == "bf16" else floats.astype(array_dtype(kind))
    return QuantTensor(scheme, (n, k), parts)


def _codes(kind: DType) -> np.ndarray:
    if kind.is_float:
        return np.flatnonzero(np.isfinite(values(kind.name))).astype(np.uint8)
    return np.arange(kind.lowest, kind.highest + 1).astype(array_dtype(kind))
