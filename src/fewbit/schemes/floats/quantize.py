"""Round to nearest in small floats: the largest magnitude of each granule goes to the largest finite code.

A scale of e8m0 is the power of two that puts that magnitude into the code's top binade (OCP MX: floor), so the largest
may saturate. With a global scale, scales fill their own type's range over the whole tensor (NVFP4).
"""

from __future__ import annotations

import numpy as np

from fewbit.schemes.affine.reference import spread
from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import largest, narrow, nearest, widen
from fewbit.schemes.granules import peaks
from fewbit.spec.scheme import QuantTensor, Scheme


def quantize(weight: Array, scheme: Scheme) -> QuantTensor:
    """weight: f32 [N, K]."""
    n, k = weight.shape
    parts: dict[str, Array] = {}
    if scheme.scale is None:
        return QuantTensor(scheme, (n, k), {"codes": nearest(weight, scheme.codes.name)})
    peak = peaks(weight, scheme.granularity)
    top, overall = np.float32(largest(scheme.codes.name)), np.float32(1)
    scale: Array
    if scheme.scale.name == "e8m0":
        exponent = np.frexp(peak)[1] - np.frexp(top)[1]  # of the binades of peak and top
        scale = np.ldexp(np.float32(1), np.where(peak > 0, exponent, 0)).astype(np.float32)
    else:
        scale = peak / top
        if scheme.global_scale:
            room = np.float32(largest(scheme.scale.name)) if scheme.scale.bits <= 8 else np.float32(1)
            ideal = np.maximum(scale.max() / room, np.float32(1e-30)).reshape(1)
            parts["global_scale"] = narrow(ideal, scheme.global_scale)
            overall = widen(parts["global_scale"], scheme.global_scale)[0]
            scale = scale / overall
    parts["scale"] = narrow(scale, scheme.scale)
    stored = widen(parts["scale"], scheme.scale) * overall
    inverse = np.divide(np.float32(1), stored, out=np.zeros_like(stored), where=stored != 0)
    parts["codes"] = nearest(weight * spread(inverse, n, k, scheme.granularity), scheme.codes.name)
    return QuantTensor(scheme, (n, k), parts)
