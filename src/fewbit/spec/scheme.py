"""A scheme is the numerics of a quantized tensor: what its bits mean, whatever file they came from.

    symmetric          w = scale * code                                  i4g32
    zero point         w = scale * (code - zero_point)                   u4g128z
    offset             w = scale * code + offset                         u4g32o
    two-level offset   w = (super_scale * scale) * code - super_offset * offset     u4g32ot
    two-level          w = (super_scale * scale) * code                  i6g16t
    plain              w = code (a float)                                bf16

The scale is always the multiplier of dequantization. Rewriting an offset as a zero point is not exact, so the
file's own form is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fewbit.spec.dtype import DType
from fewbit.spec.granularity import NONE, Granularity


@dataclass(frozen=True, slots=True)
class Scheme:
    """Element type and granularity of the codes, and the type of each further part (None: the part is absent).

    `super_block` is the run of K elements that share one super_scale (and super_offset) in a two-level scheme.
    """

    codes: DType
    granularity: Granularity = NONE
    scale: DType | None = None
    zero_point: DType | None = None
    offset: DType | None = None
    super_scale: DType | None = None
    super_block: int = 0

    def __post_init__(self) -> None:
        if self.zero_point and self.offset:
            raise ValueError("a scheme has a zero point in code units or an offset in value units, not both")
        if (self.scale is None) != (self.granularity.sharing == "none"):
            raise ValueError(f"granularity {self.granularity.sharing!r} and scale {self.scale} do not agree")
        if bool(self.super_scale) != bool(self.super_block):
            raise ValueError("super_scale and super_block come together")

    @property
    def name(self) -> str:
        """Grammar: <codes>[g<k>|b<n>x<k>|tensor|channel][z|o][t], as in kernel names."""
        form = "z" if self.zero_point else "o" if self.offset else ""
        return f"{self.codes}{self.granularity}{form}{'t' if self.super_scale else ''}"

    def __str__(self) -> str:
        return self.name

    @property
    def is_plain(self) -> bool:
        """Stored as floats, with nothing to dequantize."""
        return self.scale is None

    @property
    def block_k(self) -> int:
        """K must be a multiple of this: the largest run of elements that share any part."""
        return max(self.super_block, self.granularity.k, 1)

    def part_shapes(self, n: int, k: int) -> dict[str, tuple[int, ...]]:
        """Canonical shape of every part of an n x k weight, by role."""
        shapes: dict[str, tuple[int, ...]] = {"codes": (n, k)}
        if self.scale:
            shapes["scale"] = self.granularity.scale_shape(n, k)
        if self.zero_point:
            shapes["zero_point"] = shapes["scale"]
        if self.offset:
            shapes["offset"] = shapes["scale"]
        if self.super_scale:
            shapes["super_scale"] = (n, -(-k // self.super_block))
            if self.offset:
                shapes["super_offset"] = shapes["super_scale"]
        return shapes

    def part_dtypes(self) -> dict[str, DType]:
        """Element type of every part, by role, in the order of `part_shapes`."""
        types: dict[str, DType] = {"codes": self.codes}
        if self.scale:
            types["scale"] = self.scale
        if self.zero_point:
            types["zero_point"] = self.zero_point
        if self.offset:
            types["offset"] = self.offset
        if self.super_scale:
            types["super_scale"] = self.super_scale
            if self.offset:
                types["super_offset"] = self.super_scale
        return types

    def bits_per_weight(self, n: int = 1024, k: int = 4096) -> float:
        """Information content, without padding: bits of all parts over n*k."""
        total = 0
        for role, shape in self.part_shapes(n, k).items():
            count = 1
            for extent in shape:
                count *= extent
            total += count * self.part_dtypes()[role].bits
        return total / (n * k)


@dataclass(frozen=True, slots=True)
class QuantTensor:
    """The narrow waist between formats and kernels: a weight[N, K] (or vector) as canonical parts by role.

    Sub-byte codes are held one per byte (int8 for signed, uint8 for unsigned), unpacked and unbiased; plain floats are
    the codes themselves (bf16 as uint16 bit patterns). Parts are arrays of any kind that has `shape` and `dtype`.
    """

    scheme: Scheme
    shape: tuple[int, ...]
    parts: Mapping[str, Any]

    def __post_init__(self) -> None:
        if len(self.shape) != 2:
            if not self.scheme.is_plain:
                raise ValueError(f"a quantized tensor has two dimensions, got shape {self.shape}")
            expected: dict[str, tuple[int, ...]] = {"codes": self.shape}
        else:
            expected = self.scheme.part_shapes(*self.shape)
        found = {role: tuple(part.shape) for role, part in self.parts.items()}
        if found != expected:
            raise ValueError(
                f"scheme {self.scheme} of shape {self.shape} needs parts {expected}, got {found}"
            )
