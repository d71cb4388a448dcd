"""The affine schemes that formats produce. Names are `Scheme.name`; `o` is an offset, `t` a two-level scale."""

from __future__ import annotations

from fewbit.spec import dtype
from fewbit.spec.dtype import DType
from fewbit.spec.granularity import group
from fewbit.spec.scheme import Scheme


def one_level(codes: DType, k: int, *, offset: bool = False, scale: DType = dtype.F16) -> Scheme:
    return Scheme(codes, group(k), scale=scale, offset=scale if offset else None)


def two_level(codes: DType, k: int, scale: DType, *, offset: bool = False) -> Scheme:
    return Scheme(
        codes, group(k), scale=scale, offset=scale if offset else None, super_scale=dtype.F16, super_block=256
    )


I4G32 = one_level(dtype.I4, 32)
I5G32 = one_level(dtype.I5, 32)
I8G32 = one_level(dtype.I8, 32)
U4G32O = one_level(dtype.U4, 32, offset=True)
U5G32O = one_level(dtype.U5, 32, offset=True)

U2G16OT = two_level(dtype.U2, 16, dtype.U4, offset=True)
I3G16T = two_level(dtype.I3, 16, dtype.I6)
U4G32OT = two_level(dtype.U4, 32, dtype.U6, offset=True)
U5G32OT = two_level(dtype.U5, 32, dtype.U6, offset=True)
I6G16T = two_level(dtype.I6, 16, dtype.I8)

SCHEMES = (I4G32, U4G32O, I5G32, U5G32O, I8G32, U2G16OT, I3G16T, U4G32OT, U5G32OT, I6G16T)
