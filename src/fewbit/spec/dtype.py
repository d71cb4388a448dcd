"""Element types by name, with their width in bits. `i4` is a signed 4-bit code, `u4` an unsigned one."""

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


F32 = DType("f32", 32, "float")
F16 = DType("f16", 16, "float")
BF16 = DType("bf16", 16, "float")
I64 = DType("i64", 64, "signed")
I32 = DType("i32", 32, "signed")
I16 = DType("i16", 16, "signed")
I8 = DType("i8", 8, "signed")
I6 = DType("i6", 6, "signed")
I5 = DType("i5", 5, "signed")
I4 = DType("i4", 4, "signed")
I3 = DType("i3", 3, "signed")
U32 = DType("u32", 32, "unsigned")
U16 = DType("u16", 16, "unsigned")
U8 = DType("u8", 8, "unsigned")
U6 = DType("u6", 6, "unsigned")
U5 = DType("u5", 5, "unsigned")
U4 = DType("u4", 4, "unsigned")
U2 = DType("u2", 2, "unsigned")

DTYPES = {
    t.name: t for t in (F32, F16, BF16, I64, I32, I16, I8, I6, I5, I4, I3, U32, U16, U8, U6, U5, U4, U2)
}


def dtype(name: str) -> DType:
    """The type of that name; KeyError-free: raises ValueError naming the known ones."""
    try:
        return DTYPES[name]
    except KeyError:
        raise ValueError(f"unknown dtype {name!r}; known: {', '.join(DTYPES)}") from None
