"""The lattice schemes: parts and names, those of QuIP#'s codebooks.

e8p12         codes [N, K / 8]: rows of the E8P codebook                      2 bits a weight
e8p12rvq3b    and residual_codes [N, K / 8] of 8 bits: rows of the short one  3 bits
e8p12rvq4b    and residual_codes [N, K / 8] of 16 bits: rows of E8P           4 bits

residual_scale [1] multiplies what the residual codes stand for.
"""

from __future__ import annotations

from fewbit.spec.dtype import F32, U8, U16, DType
from fewbit.spec.scheme import PartSpec, Scheme

RUN = 8


def _scheme(family: str, residual: DType | None = None) -> Scheme:
    dims = (("n", 1), ("k", RUN))
    parts = [PartSpec("codes", U16, dims)]
    if residual is not None:
        parts += [PartSpec("residual_codes", residual, dims), PartSpec("residual_scale", F32, (1,))]
    return Scheme(U16, family=family, family_parts=tuple(parts), k_block=RUN)


E8P12 = _scheme("e8p12")
E8P12RVQ3B = _scheme("e8p12rvq3b", U8)
E8P12RVQ4B = _scheme("e8p12rvq4b", U16)
