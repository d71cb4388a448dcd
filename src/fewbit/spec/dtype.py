"""Element types by name, with their width in bits. `i4` is a signed 4-bit code, `u4` an unsigned one.

Floats below 16 bits are e<exponent>m<mantissa>: e4m3 (no infinities, NaN 0x7f and 0xff), e4m3fnuz and e5m2fnuz (bias one
higher, one zero, NaN 0x80), e5m2 (IEEE), e8m0 (2^(code - 127), code 255 is NaN), e2m1, e2m3 and e3m2 (finite only).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["float", "signed", "unsigned"]


@dataclass(frozen=True, slots=True)
class DType:
    name: str
    bits: int
    kind: Kind

    def __str__(self) -> str:
        return self.name

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def lowest(self) -> int:
        """Smallest code of an integer type."""
        if self.is_float:
            raise ValueError(f"{self.name} is a float type and has no codes")
        return -(1 << (self.bits - 1)) if self.kind == "signed" else 0

    @property
    def highest(self) -> int:
        """Largest code of an integer type."""
        return self.lowest + (1 << self.bits) - 1


F64 = DType("f64", 64, "float")
F32 = DType("f32", 32, "float")
F16 = DType("f16", 16, "float")
BF16 = DType("bf16", 16, "float")
E4M3 = DType("e4m3", 8, "float")
E4M3FNUZ = DType("e4m3fnuz", 8, "float")
E5M2 = DType("e5m2", 8, "float")
E5M2FNUZ = DType("e5m2fnuz", 8, "float")
E8M0 = DType("e8m0", 8, "float")
E2M3 = DType("e2m3", 6, "float")
E3M2 = DType("e3m2", 6, "float")
E2M1 = DType("e2m1", 4, "float")
SMALL_FLOATS = (E4M3, E4M3FNUZ, E5M2, E5M2FNUZ, E8M0, E2M3, E3M2, E2M1)

I64, I32, I16 = (DType(f"i{bits}", bits, "signed") for bits in (64, 32, 16))
I8, I7, I6, I5, I4, I3, I2, I1 = (DType(f"i{bits}", bits, "signed") for bits in range(8, 0, -1))
U64, U32, U16 = (DType(f"u{bits}", bits, "unsigned") for bits in (64, 32, 16))
U8, U7, U6, U5, U4, U3, U2, U1 = (DType(f"u{bits}", bits, "unsigned") for bits in range(8, 0, -1))

DTYPES = {
    t.name: t
    for t in (
        *(F64, F32, F16, BF16, *SMALL_FLOATS),
        *(I64, I32, I16, I8, I7, I6, I5, I4, I3, I2, I1),
        *(U64, U32, U16, U8, U7, U6, U5, U4, U3, U2, U1),
    )
}


def dtype(name: str) -> DType:
    """The type of that name; KeyError-free: raises ValueError naming the known ones."""
    try:
        return DTYPES[name]
    except KeyError:
        raise ValueError(f"unknown dtype {name!r}; known: {', '.join(DTYPES)}") from None
