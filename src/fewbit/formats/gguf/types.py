"""GGML tensor types: their ids, block sizes, the scheme they mean, and the codec of one block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fewbit.formats.gguf import blocks_k, blocks_legacy
from fewbit.schemes.affine import scheme as affine
from fewbit.schemes.arrays import Array
from fewbit.schemes.plain import scheme as plain
from fewbit.spec.scheme import Scheme


@dataclass(frozen=True, slots=True)
class GgufType:
    """`unpack` fills parts from blocks and `pack` fills blocks from parts; None for plain floats, which are copied.

    Both see blocks as uint8 [blocks, block_bytes] and every part as [blocks, elements of that part in a block].
    """

    id: int
    name: str
    block: int
    block_bytes: int
    scheme: Scheme
    unpack: Callable[[Array, Mapping[str, Array]], None] | None = None
    pack: Callable[[Mapping[str, Array], Array], None] | None = None

    def row_bytes(self, k: int) -> int:
        return k // self.block * self.block_bytes


TYPES: dict[int, GgufType] = {
    t.id: t
    for t in (
        GgufType(0, "F32", 1, 4, plain.F32),
        GgufType(1, "F16", 1, 2, plain.F16),
        GgufType(2, "Q4_0", 32, 18, affine.I4G32, blocks_legacy.unpack_q4_0, blocks_legacy.pack_q4_0),
        GgufType(3, "Q4_1", 32, 20, affine.U4G32O, blocks_legacy.unpack_q4_1, blocks_legacy.pack_q4_1),
        GgufType(6, "Q5_0", 32, 22, affine.I5G32, blocks_legacy.unpack_q5_0, blocks_legacy.pack_q5_0),
        GgufType(7, "Q5_1", 32, 24, affine.U5G32O, blocks_legacy.unpack_q5_1, blocks_legacy.pack_q5_1),
        GgufType(8, "Q8_0", 32, 34, affine.I8G32, blocks_legacy.unpack_q8_0, blocks_legacy.pack_q8_0),
        GgufType(10, "Q2_K", 256, 84, affine.U2G16OT, blocks_k.unpack_q2_k, blocks_k.pack_q2_k),
        GgufType(11, "Q3_K", 256, 110, affine.I3G16T, blocks_k.unpack_q3_k, blocks_k.pack_q3_k),
        GgufType(12, "Q4_K", 256, 144, affine.U4G32OT, blocks_k.unpack_q4_k, blocks_k.pack_q4_k),
        GgufType(13, "Q5_K", 256, 176, affine.U5G32OT, blocks_k.unpack_q5_k, blocks_k.pack_q5_k),
        GgufType(14, "Q6_K", 256, 210, affine.I6G16T, blocks_k.unpack_q6_k, blocks_k.pack_q6_k),
        GgufType(30, "BF16", 1, 2, plain.BF16),
    )
}

BY_SCHEME: dict[Scheme, GgufType] = {t.scheme: t for t in TYPES.values()}

UNSUPPORTED: dict[int, str] = {
    4: "Q4_2", 5: "Q4_3", 9: "Q8_1", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 20: "IQ4_NL",
    21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M",
    31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8", 34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0",
}  # fmt: skip
