"""A scheme is the numerics of a quantized tensor: what its bits mean, whatever file they came from.

    symmetric          w = scale * code                                  i4g32  i8channel
    zero point         w = scale * (code - zero_point)                   u4g128z
    offset             w = scale * code + offset                         u4g32o
    two-level offset   w = (super_scale * scale) * code - super_offset * offset     u4g32ot
    two-level          w = (super_scale * scale) * code                  i6g16t
    global scale       w = (scale * global_scale) * code                 e2m1g16s (NVFP4)
    small floats       code is the float that its bits are               e4m3b128x128, e2m1g32 (MXFP4, scale e8m0)
    codebook           w = scale * codebook[code]                        u4g64c (NF4)
    group index        scale of column k is that of group_index[k]       u4g128zi (activation order)
    mask               codes where the mask is 0 are 0                   e4m3channelm (2:4 and unstructured sparsity)
    plain              w = code (a float)                                bf16
    a family           whatever its folder's `dequantize(parts)` says    iq2_xxs, tq1_0, aqlm

The scale is always the multiplier of dequantization. Rewriting an offset as a zero point is not exact, so the
file's own form is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from fewbit.spec.dtype import I32 as INDEX
from fewbit.spec.dtype import U1, DType
from fewbit.spec.granularity import CHANNEL, NONE, Granularity


@dataclass(frozen=True, slots=True)
class PartSpec:
    """A part of a family's tensor. Each dimension is a number, or ("n" | "k", d): that axis over d, rounded up."""

    role: str
    dtype: DType
    dims: tuple[int | tuple[str, int], ...]

    def shape(self, n: int, k: int) -> tuple[int, ...]:
        sizes = {"n": n, "k": k}
        return tuple(d if isinstance(d, int) else -(-sizes[d[0]] // d[1]) for d in self.dims)


@dataclass(frozen=True, slots=True)
class Scheme:
    """Element type and granularity of the codes, and the type of each further part (None: the part is absent).

    `super_block` is the run of K elements that share one super_scale (and super_offset) in a two-level scheme.
    `global_scale` is one multiplier of the whole tensor. A zero point may be a float (in code units).
    `family` names a folder of schemes/ that alone knows the numerics; then `family_parts` are all parts, and
    `row_block` x `k_block` the tile that cannot be cut.
    """

    codes: DType
    granularity: Granularity = NONE
    scale: DType | None = None
    zero_point: DType | None = None
    offset: DType | None = None
    super_scale: DType | None = None
    super_block: int = 0
    global_scale: DType | None = None
    codebook: DType | None = None
    group_index: bool = False
    mask: bool = False
    family: str = ""
    family_parts: tuple[PartSpec, ...] = ()
    row_block: int = 1
    k_block: int = 1

    def __post_init__(self) -> None:
        if self.zero_point and self.offset:
            raise ValueError("a scheme has a zero point in code units or an offset in value units, not both")
        if (self.scale is None) != (self.granularity.sharing == "none"):
            raise ValueError(f"granularity {self.granularity.sharing!r} and scale {self.scale} do not agree")
        if bool(self.super_scale) != bool(self.super_block):
            raise ValueError("super_scale and super_block come together")
        if bool(self.family) != bool(self.family_parts):
            raise ValueError("a family comes with its parts")
        if self.group_index and self.granularity.sharing != "group":
            raise ValueError(f"a group index needs groups, got granularity {self.granularity.sharing!r}")

    @property
    def name(self) -> str:
        """Grammar: <codes>[g<k>|b<n>x<k>|tensor|channel][z|o][t][s][c][i][m], as in kernel names; a family's own name."""
        if self.family:
            return self.family
        letters = {
            "z": self.zero_point, "o": self.offset, "t": self.super_scale, "s": self.global_scale,
            "c": self.codebook, "i": self.group_index, "m": self.mask,
        }  # fmt: skip
        return (
            f"{self.codes}{self.granularity}{''.join(letter for letter, there in letters.items() if there)}"
        )

    def __str__(self) -> str:
        return self.name

    @property
    def is_plain(self) -> bool:
        """Stored as floats, with nothing to dequantize."""
        return self.scale is None and not (self.family or self.mask) and self.codes.bits >= 16

    @property
    def block_k(self) -> int:
        """K must be a multiple of this: the largest run of elements that share any part."""
        return max(self.super_block, self.granularity.k, self.k_block, 1)

    @property
    def block_n(self) -> int:
        """Rows can be cut at multiples of this only."""
        return max(self.granularity.n, self.row_block, 1)

    def stacked(self, k: int) -> Scheme | None:
        """The scheme of weights [*, k] of this one laid below one another (each but the last a multiple of `block_n` rows):
        a scale of the tensor becomes one a row, a global scale the super scale of each row, so that no weight's own is lost.
        None where some part cannot be had by row: a codebook, a group index, whatever a family shares.
        """
        if self.family:
            by_row = all(spec.dims[0] == ("n", self.row_block) for spec in self.family_parts)
            return self if by_row else None
        if self.codebook or self.group_index:
            return None
        if self.global_scale:
            grouped = self.granularity.sharing == "group" and not self.super_scale and k > 0
            if not grouped or self.offset or k % self.granularity.k:
                return None
            return replace(self, global_scale=None, super_scale=self.global_scale, super_block=k)
        return replace(self, granularity=CHANNEL) if self.granularity.sharing == "tensor" else self

    def part_shapes(self, n: int, k: int) -> dict[str, tuple[int, ...]]:
        """Canonical shape of every part of an n x k weight, by role."""
        if self.family:
            return {spec.role: spec.shape(n, k) for spec in self.family_parts}
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
        if self.global_scale:
            shapes["global_scale"] = (1,)
        if self.codebook:
            shapes["codebook"] = (1 << self.codes.bits,)
        if self.group_index:
            shapes["group_index"] = (k,)
        if self.mask:
            shapes["mask"] = (n, k)
        return shapes

    def part_dtypes(self) -> dict[str, DType]:
        """Element type of every part, by role, in the order of `part_shapes`."""
        if self.family:
            return {spec.role: spec.dtype for spec in self.family_parts}
        types: dict[str, DType | None] = {
            "codes": self.codes,
            "scale": self.scale,
            "zero_point": self.zero_point,
            "offset": self.offset,
            "super_scale": self.super_scale,
            "super_offset": self.super_scale if self.offset else None,
            "global_scale": self.global_scale,
            "codebook": self.codebook,
            "group_index": INDEX if self.group_index else None,
            "mask": U1 if self.mask else None,
        }
        return {role: element for role, element in types.items() if element}

    def bits_per_weight(self, n: int = 1024, k: int = 4096) -> float:
        """Information content, without padding: bits of all parts over n*k."""
        types = self.part_dtypes()
        total = sum(prod(shape) * types[role].bits for role, shape in self.part_shapes(n, k).items())
        return total / (n * k)


@dataclass(frozen=True, slots=True)
class QuantTensor:
    """The narrow waist between formats and kernels: a weight[N, K] (or vector) as canonical parts by role.

    Sub-byte codes are held one per byte (int8 for signed, uint8 for unsigned), unpacked and unbiased; floats of 16 bits
    or less that numpy lacks are bit patterns (bf16 uint16, e4m3 uint8). Parts are arrays of any kind that has `shape` and
    `dtype`.
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
