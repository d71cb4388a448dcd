"""The grid schemes: parts and their lengths.

index   row of the grid, one for each run of 4 or 8 elements
signs   a bit for each element of a run of 8, lowest first: 1 is minus               (iq2, iq3)
shift   1: an eighth is taken from every value of the run, 0: an eighth is added     (iq1)
scale   code of the run's scale, an odd number: 2 * code + 1
"""

from __future__ import annotations

from fewbit.spec import dtype
from fewbit.spec.dtype import DType
from fewbit.spec.scheme import PartSpec, Scheme


def _scheme(family: str, run: int, scale: DType, scale_run: int, shift_run: int = 0) -> Scheme:
    def along(role: str, element: DType, length: int) -> PartSpec:
        return PartSpec(role, element, (("n", 1), ("k", length)))

    sign = along("shift", dtype.U1, shift_run) if shift_run else along("signs", dtype.U8, 8)
    parts = (
        along("index", dtype.U16, run),
        sign,
        along("scale", scale, scale_run),
        along("super_scale", dtype.F16, 256),
    )
    return Scheme(dtype.U16, family=family, family_parts=parts, k_block=256)


IQ1_S = _scheme("iq1_s", 8, dtype.U3, 32, shift_run=32)
IQ1_M = _scheme("iq1_m", 8, dtype.U3, 16, shift_run=8)
IQ2_XXS = _scheme("iq2_xxs", 8, dtype.U4, 32)
IQ2_XS = _scheme("iq2_xs", 8, dtype.U4, 16)
IQ2_S = _scheme("iq2_s", 8, dtype.U4, 16)
IQ3_XXS = _scheme("iq3_xxs", 4, dtype.U4, 32)
IQ3_S = _scheme("iq3_s", 4, dtype.U4, 32)
