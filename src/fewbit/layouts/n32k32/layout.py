"""Layouts n32k32 and n32k256: panels of 32 rows n, cut along k into blocks whose bytes lie together.

    packed = panel 0 | panel 1 | ...            panel p holds rows 32p .. 32p+31; missing rows have code 0 and scale 0
    panel  = block 0 | block 1 | ...            block b holds columns b*block_k .. ; a multiple of 64 bytes

    n32k32, block of 32 columns                 n32k256, block of 256 columns (two-level schemes)
      codes   (one sub-block)                     codes         8 sub-blocks of 32 columns
      scale   f16 [32 n]                          scale         u8 | i8 [256/group][32 n]
      offset  f16 [32 n]     if any               offset        u8 [256/group][32 n]       if any
                                                  super_scale   f16 [32 n]
                                                  super_offset  f16 [32 n]                 if any

A sub-block holds the codes of 32 n x 32 k as bit planes, the plane of the low bits first:

    bits    2   3     4   5     6     8   16   32          plane of b bits = [half of 16 n][word row r < b][16 lanes] u32
    planes  2   2+1   4   4+1   4+2   8   16   32

    a word of a b-bit plane holds W = 32/b consecutive k of one n:

      b = 4, k =   7    5    3    1  |  6    4    2    0       even k in the low half-word, odd k in the high one, so a
          bits  31-28 ..      19-16  | 15-12 ..       3-0      16-bit lane is (n, parity of k): the pair order of AMX tiles

      b >= 8: k in order (four bytes, two half-words, one word)

Codes are stored unsigned: signed ones below 8 bits plus 2^(bits-1), i8 as two's complement, floats as their bits.
Plain floats pad K to 32 with zeros; other schemes need K to be a multiple of the block.
"""

from __future__ import annotations

from math import prod

from fewbit.spec.layout import Layout
from fewbit.spec.scheme import Scheme

NAMES = ("n32k32", "n32k256")
PANEL = 32
SUB_BLOCK = 32
PLANES: dict[int, tuple[int, ...]] = {
    2: (2,), 3: (2, 1), 4: (4,), 5: (4, 1), 6: (4, 2), 8: (8,), 16: (16,), 32: (32,),
}  # fmt: skip


def layout(name: str, scheme: Scheme) -> Layout:
    fits = "n32k256" if scheme.super_scale else "n32k32"
    block_k = 256 if scheme.super_scale else 32
    grouped = scheme.granularity.sharing == "group" and scheme.block_k == block_k and not scheme.zero_point
    if name != fits or not (scheme.is_plain or grouped) or scheme.codes.bits not in PLANES:
        raise ValueError(f"layout {name} does not hold scheme {scheme}")
    return Layout(name, scheme, PANEL, block_k)


def bias(scheme: Scheme) -> int:
    """What is added to a code to store it."""
    return -scheme.codes.lowest if scheme.codes.kind == "signed" and scheme.codes.bits < 8 else 0


def part_bytes(layout: Layout) -> dict[str, int]:
    """Bytes of each part in one block, in their order."""
    scheme = layout.scheme
    sizes = {"codes": PANEL * layout.block_k * scheme.codes.bits // 8}
    shapes, types = scheme.part_shapes(PANEL, layout.block_k), scheme.part_dtypes()
    for role in types:
        if role != "codes":
            sizes[role] = prod(shapes[role]) * max(types[role].bits, 8) // 8
    return sizes


def blocks(layout: Layout, k: int) -> int:
    if k % layout.block_k and not layout.scheme.is_plain:
        raise ValueError(f"K={k} is not a multiple of {layout.block_k}, the block of layout {layout.name}")
    return -(-k // layout.block_k)


def packed_bytes(layout: Layout, n: int, k: int) -> int:
    return -(-n // PANEL) * blocks(layout, k) * sum(part_bytes(layout).values())
