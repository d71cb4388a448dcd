"""Round to nearest, group by group: the plainest quantizer, for tests and for conversion without data.

Symmetric groups put their element of largest magnitude on the lowest code (which has no positive twin); offset and zero-point
groups map [min(w, 0 for two levels), max(w)] onto all codes. The codes are rounded against the scale as stored, not against the ideal one.
"""

from __future__ import annotations

import numpy as np

from fewbit.schemes.affine.reference import spread
from fewbit.schemes.arrays import Array, array_dtype
from fewbit.schemes.floats.table import narrow, widen
from fewbit.schemes.granules import extremes
from fewbit.spec.dtype import DType
from fewbit.spec.scheme import QuantTensor, Scheme


def quantize(weight: Array, scheme: Scheme) -> QuantTensor:
    """weight: f32 [N, K], K a multiple of the scheme's block."""
    weight = np.ascontiguousarray(weight, np.float32)
    n, k = weight.shape
    if k % scheme.block_k and (scheme.super_scale or scheme.granularity.sharing == "group"):
        raise ValueError(f"K={k} is not a multiple of {scheme.block_k}, the block of scheme {scheme}")
    low, high = extremes(weight, scheme.granularity)
    parts: dict[str, Array] = {}
    zero: Array = np.zeros((1, 1), np.float32)
    if scheme.offset or scheme.zero_point:
        if scheme.super_scale or scheme.zero_point:
            low, high = np.minimum(low, 0), np.maximum(high, 0)
        scale = (high - low) / np.float32(scheme.codes.highest - scheme.codes.lowest)
    else:
        scale = np.where(-low >= high, low, high) / np.float32(scheme.codes.lowest)
    if scheme.super_scale:
        parts["scale"], parts["super_scale"], scale = _two_level(scale, scheme.scale, scheme)
        if scheme.offset:
            parts["offset"], parts["super_offset"], offset = _two_level(-low, scheme.offset, scheme)
            zero = -offset
    else:
        parts["scale"], scale = _store(scale, scheme.scale)
        if scheme.offset:
            parts["offset"], zero = _store(low, scheme.offset)
    inverse = np.divide(np.float32(1), scale, out=np.zeros_like(scale), where=scale != 0)
    if scheme.zero_point:
        point = np.clip(
            np.rint(scheme.codes.lowest - low * inverse), scheme.codes.lowest, scheme.codes.highest
        )
        parts["zero_point"] = point.astype(array_dtype(scheme.zero_point))
        steps = weight * spread(inverse, n, k, scheme.granularity)
        steps = steps + spread(point.astype(np.float32), n, k, scheme.granularity)
    else:
        shift = spread(zero, n, k, scheme.granularity) if scheme.offset else zero
        steps = (weight - shift) * spread(inverse, n, k, scheme.granularity)
    codes = np.clip(np.rint(steps), scheme.codes.lowest, scheme.codes.highest)
    parts["codes"] = codes.astype(array_dtype(scheme.codes))
    return QuantTensor(scheme, (n, k), parts)


def _store(values: Array, element: DType | None) -> tuple[Array, Array]:
    """A float part as stored, and the f32 that its readers see."""
    assert element is not None
    stored = narrow(values, element)
    return stored, widen(stored, element)


def _two_level(values: Array, element: DType | None, scheme: Scheme) -> tuple[Array, Array, Array]:
    """Integer sub-values, their f16 super value, and the f32 product. A signed sub-value spends its sign on the lowest."""
    assert element is not None
    n, groups = values.shape
    per_super = scheme.super_block // scheme.granularity.k
    runs = values.reshape(n, groups // per_super, per_super)
    peak = np.take_along_axis(runs, np.abs(runs).argmax(axis=2, keepdims=True), axis=2)[:, :, 0]
    extreme = np.float32(element.lowest if element.kind == "signed" else element.highest)
    stored, top = _store(peak / extreme, scheme.super_scale)
    wide = np.repeat(top, per_super, axis=1)
    ratio = np.divide(values, wide, out=np.zeros_like(values), where=wide != 0)
    whole = np.clip(np.rint(ratio), element.lowest, element.highest)
    return whole.astype(array_dtype(element)), stored, whole.astype(np.float32) * wide
