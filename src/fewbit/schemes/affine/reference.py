"""What codes with a scale mean, in f32, in the one order of operations that every bitwise kernel follows.

    one level    w = value * scale [+ offset]                                             symmetric, offset
                 w = (value - zero_point) * scale                                         zero point
    two levels   w = value * (super_scale * scale) [- super_offset * offset]
    global       w = value * (scale * global_scale)

value is the code of an integer type, the number of a small float's code, or codebook[code]; where a mask is 0, it is 0.
A group index names the group of every column; without it column k belongs to group k // length.

f16 has 11 significant bits, a sub-scale at most 8, a code at most 8: with the widths of GGUF's schemes every product
here is exact in f32 (at most 24 bits), so only the one addition rounds, and `fma(code, scale, offset)` gives the same bits.
"""

from __future__ import annotations

import numpy as np

from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import widen
from fewbit.spec.granularity import Granularity
from fewbit.spec.scheme import QuantTensor


def dequantize(tensor: QuantTensor) -> Array:
    """f32 [N, K]."""
    scheme, (n, k), parts = tensor.scheme, tensor.shape, tensor.parts
    types, index = scheme.part_dtypes(), parts.get("group_index")

    def number(role: str) -> Array:
        return widen(parts[role], types[role])

    weight: Array = number("codebook")[parts["codes"]] if scheme.codebook else number("codes")
    if scheme.zero_point:
        weight -= spread(number("zero_point"), n, k, scheme.granularity, index)
    if scheme.scale:
        scale = number("scale")
        if scheme.super_scale:
            per_super = scheme.super_block // scheme.granularity.k
            scale = scale * np.repeat(number("super_scale"), per_super, axis=1)[:, : scale.shape[1]]
        if scheme.global_scale:
            scale = scale * number("global_scale")
        weight *= spread(scale, n, k, scheme.granularity, index)
    if scheme.offset:
        offset = number("offset")
        if scheme.super_scale:
            offset = -(offset * np.repeat(number("super_offset"), per_super, axis=1)[:, : offset.shape[1]])
        weight += spread(offset, n, k, scheme.granularity, index)
    if scheme.mask:
        weight = np.where(parts["mask"] != 0, weight, np.float32(0))
    return weight


def spread(part: Array, n: int, k: int, granularity: Granularity, group_index: Array | None = None) -> Array:
    """A part at its granularity as an array that broadcasts to [n, k]."""
    match granularity.sharing:
        case "tensor":
            return part.reshape(1, 1)
        case "channel" | "token":
            return part.reshape(n, 1)
        case "group":
            if group_index is not None:
                by_column: Array = part[:, group_index]
                return by_column
            return np.repeat(part, granularity.k, axis=1)[:, :k]
        case "block":
            return np.repeat(np.repeat(part, granularity.n, axis=0)[:n], granularity.k, axis=1)[:, :k]
        case _:
            raise ValueError(f"granularity {granularity.sharing!r} has no parts to spread")
