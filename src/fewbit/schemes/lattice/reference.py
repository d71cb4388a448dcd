"""What the parts of a lattice scheme mean, in f32: w[8 columns] = e8p[code] + residual[residual_code] * residual_scale."""

from __future__ import annotations

import numpy as np

from fewbit.schemes.arrays import Array
from fewbit.schemes.lattice.e8p import E8P_BITS, e8p, short
from fewbit.spec.scheme import QuantTensor


def dequantize(tensor: QuantTensor) -> Array:
    """f32 [N, K], before any rotation of the layer."""
    parts = tensor.parts
    weight = e8p()[parts["codes"]]
    if "residual_codes" in parts:
        wide = tensor.scheme.part_dtypes()["residual_codes"].bits == E8P_BITS
        weight = weight + (e8p() if wide else short())[parts["residual_codes"]] * parts["residual_scale"][0]
    return np.ascontiguousarray(weight.reshape(tensor.shape))
