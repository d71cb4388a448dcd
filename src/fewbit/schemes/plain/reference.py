"""Plain floats to f32 (exact) and back (round to nearest even)."""

from __future__ import annotations

import numpy as np

from fewbit.schemes.arrays import Array, round_bf16, widen_bf16
from fewbit.spec.scheme import QuantTensor, Scheme


def dequantize(tensor: QuantTensor) -> Array:
    codes: Array = tensor.parts["codes"]
    if tensor.scheme.codes.name == "bf16":
        return widen_bf16(codes)
    return codes.astype(np.float32)


def quantize(weight: Array, scheme: Scheme) -> QuantTensor:
    weight = np.ascontiguousarray(weight, np.float32)
    match scheme.codes.name:
        case "bf16":
            codes = round_bf16(weight)
        case "f16":
            with np.errstate(over="ignore"):
                codes = weight.astype(np.float16)
        case _:
            codes = weight.copy()
    return QuantTensor(scheme, tuple(weight.shape), {"codes": codes})
