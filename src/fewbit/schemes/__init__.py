"""What the bits of a canonical tensor mean: one folder a family, found by the shape of the scheme."""

from __future__ import annotations

from fewbit.schemes.affine import scheme as affine_schemes
from fewbit.schemes.plain import scheme as plain_schemes
from fewbit.spec.scheme import Scheme

SCHEMES: dict[str, Scheme] = {s.name: s for s in (*plain_schemes.SCHEMES, *affine_schemes.SCHEMES)}
