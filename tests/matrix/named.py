"""A scheme by its name and the type of its scales, and random tensors of it: those of layout n32parts, which no table lists."""

from __future__ import annotations

import re

import numpy as np

from fewbit.schemes.arrays import array_dtype, round_bf16
from fewbit.schemes.floats.table import values
from fewbit.spec.dtype import DTYPES, F32, U8, DType
from fewbit.spec.granularity import CHANNEL, TENSOR, Granularity, block, group
from fewbit.spec.scheme import QuantTensor, Scheme

_NAME = re.compile(r"([a-z]+\d+(?:m\d+)?)(?:g(\d+)|b(\d+)x(\d+)|(tensor|channel))([zo]?)(t?)(s?)(c?)")


def named(name: str, scale: str, k: int) -> Scheme:
    """Of a weight of k columns: a super scale is one of the whole row."""
    match = _NAME.fullmatch(name)
    assert match, name
    codes, run, n, width, whole, extra, two, shared, table = match.groups()
    by: Granularity = {"tensor": TENSOR, "channel": CHANNEL}.get(whole, TENSOR)
    by = group(int(run)) if run else block(int(n), int(width)) if n else by
    element, scales = DTYPES[codes], DTYPES[scale]
    return Scheme(
        element,
        by,
        scale=scales,
        zero_point=(element if element.bits == 8 or element.kind == "signed" else U8)
        if extra == "z"
        else None,
        offset=scales if extra == "o" else None,
        super_scale=F32 if two else None,
        super_block=k if two else 0,
        global_scale=F32 if shared else None,
        codebook=F32 if table else None,
    )


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
