"""The two references of every scheme: what a tensor means, and the nearest tensor to given weights."""

from __future__ import annotations

from fewbit.schemes.affine import quantize as affine_quantize
from fewbit.schemes.affine import reference as affine
from fewbit.schemes.arrays import Array
from fewbit.schemes.families import dequantizer
from fewbit.schemes.floats import quantize as float_quantize
from fewbit.schemes.plain import reference as plain
from fewbit.spec.scheme import QuantTensor, Scheme


def dequantize(tensor: QuantTensor) -> Array:
    """f32 of the tensor's shape, in the order of operations that defines the scheme's bits."""
    if tensor.scheme.family:
        return dequantizer(tensor.scheme.family)(tensor)
    return plain.dequantize(tensor) if tensor.scheme.is_plain else affine.dequantize(tensor)


def quantize(weight: Array, scheme: Scheme) -> QuantTensor:
    """Round to nearest. For tests and conversion without calibration; better quantizers start from data."""
    if scheme.is_plain:
        return plain.quantize(weight, scheme)
    if scheme.family or scheme.codebook or scheme.group_index or scheme.mask:
        raise ValueError(f"round to nearest has no rule for scheme {scheme}")
    if scheme.codes.is_float:
        return float_quantize.quantize(weight, scheme)
    return affine_quantize.quantize(weight, scheme)
