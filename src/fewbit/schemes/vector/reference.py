"""What the parts of a vector codebook scheme mean, in f32:

aqlm   w[tile] = (codebook[0][code[0]] + codebook[1][code[1]] + ...) * scale        the sum from the first codebook on
    vptq   w[rows, k] = (codebook[code] + residual_codebook[residual_code]) * column_scale[k] + column_offset[k]
"""

from __future__ import annotations

import numpy as np

from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import widen
from fewbit.spec.scheme import QuantTensor


def dequantize(tensor: QuantTensor) -> Array:
    """f32 [N, K]."""
    return _tiles(tensor) if tensor.scheme.family.startswith("aqlm_") else _columns(tensor)


def _tiles(tensor: QuantTensor) -> Array:
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


def _columns(tensor: QuantTensor) -> Array:
    n, types, parts = tensor.shape[0], tensor.scheme.part_dtypes(), tensor.parts

    def number(role: str) -> Array:
        return widen(parts[role], types[role])

    weight = _vectors(number("codebook"), parts["codes"], n)
    if "residual_codes" in parts:
        weight = weight + _vectors(number("residual_codebook"), parts["residual_codes"], n)
    if "outlier_codes" in parts:
        outliers = _vectors(number("outlier_codebook")[None], parts["outlier_codes"], n)
        weight = np.concatenate([outliers, weight], axis=1)
    if "column_order" in parts:
        weight = weight[:, parts["column_order"]]
    if "column_scale" in parts:
        weight = weight * number("column_scale") + number("column_offset")
    return np.ascontiguousarray(weight)


def _vectors(codebook: Array, codes: Array, n: int) -> Array:
    """[n, columns]: the vector of each code, downwards. Neighbouring columns of equal number share one of the codebooks."""
    group = np.arange(codes.shape[1]) // (codes.shape[1] // len(codebook))
    vectors = codebook[group, codes]  # [N / rows, columns, rows]
    stacked: Array = vectors.swapaxes(1, 2).reshape(-1, codes.shape[1])[:n]
    return stacked
