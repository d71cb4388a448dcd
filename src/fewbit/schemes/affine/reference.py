"""What affine codes mean, in f32, in the one order of operations that every bitwise kernel follows.

    one level    w = code * scale [+ offset]                                              symmetric, offset
                 w = (code - zero_point) * scale                                          zero point
    two levels   w = code * (super_scale * scale) [- super_offset * offset]

f16 has 11 significant bits, a sub-scale at most 8, a code at most 8: with the widths of the known schemes every product
here is exact in f32 (at most 24 bits), so only the one addition rounds, and `fma(code, scale, offset)` gives the same bits.
"""

from __future__ import annotations

import numpy as np

from fewbit.schemes.arrays import Array, widen_bf16
from fewbit.spec.granularity import Granularity
from fewbit.spec.scheme import QuantTensor


def dequantize(tensor: QuantTensor) -> Array:
    """f32 [N, K]."""
    scheme, (n, k), parts = tensor.scheme, tensor.shape, tensor.parts
    scale = _f32(parts["scale"], scheme.scale.name if scheme.scale else "")
    if scheme.super_scale:
        per_super = scheme.super_block // scheme.granularity.k
        scale = scale * np.repeat(_f32(parts["super_scale"], scheme.super_scale.name), per_super, axis=1)
    codes = parts["codes"].astype(np.float32)
    if scheme.zero_point:
        codes -= spread(_f32(parts["zero_point"], scheme.zero_point.name), n, k, scheme.granularity)
    codes *= spread(scale, n, k, scheme.granularity)
    if scheme.offset:
        offset = _f32(parts["offset"], scheme.offset.name)
        if scheme.super_scale:
            offset = -(
                offset * np.repeat(_f32(parts["super_offset"], scheme.super_scale.name), per_super, axis=1)
            )
        codes += spread(offset, n, k, scheme.granularity)
    weight: Array = codes
    return weight


def spread(part: Array, n: int, k: int, granularity: Granularity) -> Array:
    """A part at its granularity as an array that broadcasts to [n, k]."""
    match granularity.sharing:
        case "tensor":
            return part.reshape(1, 1)
        case "channel" | "token":
            return part.reshape(n, 1)
        case "group":
            return np.repeat(part, granularity.k, axis=1)[:, :k]
        case "block":
            return np.repeat(np.repeat(part, granularity.n, axis=0)[:n], granularity.k, axis=1)[:, :k]
        case _:
            raise ValueError(f"granularity {granularity.sharing!r} has no parts to spread")


def _f32(part: Array, name: str) -> Array:
    wide: Array = widen_bf16(part) if name == "bf16" else part.astype(np.float32)
    return wide
