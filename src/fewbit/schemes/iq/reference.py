"""What the parts of a grid scheme mean, in f32:

    iq2, iq3   w = (super_scale * (2 * scale + 1) * unit) * (grid[index] * sign)
    iq1        w = (super_scale * (2 * scale + 1)) * (grid[index] + 1/8 or - 1/8)

A superscale has 11 significant bits, 2 * scale + 1 at most 5, a value at most 6, and units are powers of two: every product is
exact, so any order of them gives the same bits.
"""

from __future__ import annotations

import numpy as np

from fewbit.schemes.arrays import Array
from fewbit.schemes.iq.grids import grid
from fewbit.spec.scheme import QuantTensor

_UNITS = {"iq2_xxs": 0.125, "iq2_xs": 0.125, "iq2_s": 0.125, "iq3_xxs": 0.25, "iq3_s": 1.0}
SHIFT = np.float32(0.125)


def dequantize(tensor: QuantTensor) -> Array:
    """f32 [N, K]."""
    family, (n, k), parts = tensor.scheme.family, tensor.shape, tensor.parts
    rows = grid("iq1" if family.startswith("iq1") else family)
    weight: Array = rows[parts["index"]].reshape(n, k)
    if "shift" in parts:
        weight += _spread(np.where(parts["shift"] != 0, -SHIFT, SHIFT), k)
    else:
        minus = np.unpackbits(parts["signs"], axis=1, bitorder="little")
        weight *= np.where(minus != 0, np.float32(-1), np.float32(1))
    odd = parts["scale"].astype(np.float32) * 2 + 1
    scale = odd * _spread(parts["super_scale"].astype(np.float32), odd.shape[1])
    weight *= _spread(scale * np.float32(_UNITS.get(family, 1.0)), k)
    return weight


def _spread(part: Array, columns: int) -> Array:
    wide: Array = np.repeat(part, columns // part.shape[1], axis=1) if part.shape[1] else part
    return wide
