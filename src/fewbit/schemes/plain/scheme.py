"""Plain floats: the code is the weight."""

from __future__ import annotations

from fewbit.spec import dtype
from fewbit.spec.scheme import Scheme

F32 = Scheme(dtype.F32)
F16 = Scheme(dtype.F16)
BF16 = Scheme(dtype.BF16)

SCHEMES = (F32, F16, BF16)
