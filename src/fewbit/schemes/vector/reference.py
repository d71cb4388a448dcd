"""What the parts of a vector codebook scheme mean, in f32:

aqlm   w[tile] = (codebook[0][code[0]] + codebook[1][code[1]] + ...) * scale        the sum from the first codebook on
"""

from __future__ import annotations

import numpy as np

from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import widen
from fewbit.spec.scheme import QuantTensor


def dequantize(tensor: QuantTensor) -> Array:
    """f32 [N, K]."""
    (n, k), types = tensor.shape, tensor.scheme.part_dtypes()
    codes = tensor.parts["codes"]
    codebook = widen(tensor.parts["codebook"], types["codebook"])
    scale = widen(tensor.parts["scale"], types["scale"])
    tiles = codebook[0][codes[..., 0]]  # [N / rows, K / run, rows, run]
    for book in range(1, len(codebook)):
        tiles = tiles + codebook[book][codes[..., book]]
    tiles = tiles * scale[..., None, None]
    weight: Array = tiles.swapaxes(1, 2).reshape(-1, k)[:n]
    return np.ascontiguousarray(weight)
