"""GGML tensor types: their ids, block sizes, the scheme they mean, and the codec of one block."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fewbit.formats.gguf import blocks_fp4, blocks_iq, blocks_k, blocks_legacy, blocks_ternary
from fewbit.schemes.affine import scheme as affine
from fewbit.schemes.arrays import Array
from fewbit.schemes.iq import scheme as iq
from fewbit.schemes.plain import scheme as plain
from fewbit.spec import dtype
from fewbit.spec.granularity import group
from fewbit.spec.scheme import Scheme


@dataclass(frozen=True, slots=True)
class GgufType:
    """`unpack` fills parts from blocks and `pack` fills blocks from parts; None for plain floats, which are copied.

    Both see blocks as uint8 [blocks, block_bytes] and every part as [blocks, elements of that part in a block], but the
    codebook, which is the same for every tensor of the type and not in the file.
    """

    id: int
    name: str
    block: int
    block_bytes: int
    scheme: Scheme
    unpack: Callable[[Array, Mapping[str, Array]], None] | None = None
    pack: Callable[[Mapping[str, Array], Array], None] | None = None
    codebook: tuple[int, ...] = ()

    def row_bytes(self, k: int) -> int:
        return k // self.block * self.block_bytes


TERNARY = Scheme(dtype.I2, group(256), scale=dtype.F16)
TERNARY_ZERO = Scheme(dtype.U2, group(256), scale=dtype.F16, zero_point=dtype.U2)
SIGNS = Scheme(dtype.U1, group(128), scale=dtype.F16, codebook=dtype.F32)
U4G32C = Scheme(dtype.U4, group(32), scale=dtype.F16, codebook=dtype.F32)
U4G32TC = Scheme(
    dtype.U4, group(32), scale=dtype.I6, super_scale=dtype.F16, super_block=256, codebook=dtype.F32
)
MXFP4 = Scheme(dtype.E2M1, group(32), scale=dtype.E8M0)
NVFP4 = Scheme(dtype.E2M1, group(16), scale=dtype.E4M3)

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
        GgufType(9, "Q8_1", 32, 36, affine.I8G32, blocks_legacy.unpack_q8_1, blocks_legacy.pack_q8_1),
        GgufType(10, "Q2_K", 256, 84, affine.U2G16OT, blocks_k.unpack_q2_k, blocks_k.pack_q2_k),
        GgufType(11, "Q3_K", 256, 110, affine.I3G16T, blocks_k.unpack_q3_k, blocks_k.pack_q3_k),
        GgufType(12, "Q4_K", 256, 144, affine.U4G32OT, blocks_k.unpack_q4_k, blocks_k.pack_q4_k),
        GgufType(13, "Q5_K", 256, 176, affine.U5G32OT, blocks_k.unpack_q5_k, blocks_k.pack_q5_k),
        GgufType(14, "Q6_K", 256, 210, affine.I6G16T, blocks_k.unpack_q6_k, blocks_k.pack_q6_k),
        GgufType(16, "IQ2_XXS", 256, 66, iq.IQ2_XXS, blocks_iq.unpack_iq2_xxs, blocks_iq.pack_iq2_xxs),
        GgufType(17, "IQ2_XS", 256, 74, iq.IQ2_XS, blocks_iq.unpack_iq2_xs, blocks_iq.pack_iq2_xs),
        GgufType(18, "IQ3_XXS", 256, 98, iq.IQ3_XXS, blocks_iq.unpack_iq3_xxs, blocks_iq.pack_iq3_xxs),
        GgufType(19, "IQ1_S", 256, 50, iq.IQ1_S, blocks_iq.unpack_iq1_s, blocks_iq.pack_iq1_s),
        GgufType(
            20,
            "IQ4_NL",
            32,
            18,
            U4G32C,
            blocks_fp4.unpack_iq4_nl,
            blocks_fp4.pack_iq4_nl,
            blocks_fp4.IQ4_VALUES,
        ),
        GgufType(21, "IQ3_S", 256, 110, iq.IQ3_S, blocks_iq.unpack_iq3_s, blocks_iq.pack_iq3_s),
        GgufType(22, "IQ2_S", 256, 82, iq.IQ2_S, blocks_iq.unpack_iq2_s, blocks_iq.pack_iq2_s),
        GgufType(
            23,
            "IQ4_XS",
            256,
            136,
            U4G32TC,
            blocks_fp4.unpack_iq4_xs,
            blocks_fp4.pack_iq4_xs,
            blocks_fp4.IQ4_VALUES,
        ),
        GgufType(29, "IQ1_M", 256, 56, iq.IQ1_M, blocks_iq.unpack_iq1_m, blocks_iq.pack_iq1_m),
        GgufType(30, "BF16", 1, 2, plain.BF16),
        GgufType(34, "TQ1_0", 256, 54, TERNARY, blocks_ternary.unpack_tq1_0, blocks_ternary.pack_tq1_0),
        GgufType(35, "TQ2_0", 256, 66, TERNARY_ZERO, blocks_ternary.unpack_tq2_0, blocks_ternary.pack_tq2_0),
        GgufType(39, "MXFP4", 32, 17, MXFP4, blocks_fp4.unpack_mxfp4, blocks_fp4.pack_mxfp4),
        GgufType(40, "NVFP4", 64, 36, NVFP4, blocks_fp4.unpack_nvfp4, blocks_fp4.pack_nvfp4),
        GgufType(41, "Q1_0", 128, 18, SIGNS, blocks_ternary.unpack_q1_0, blocks_ternary.pack_q1_0, (-1, 1)),
    )
}

BY_SCHEME: dict[Scheme, GgufType] = {t.scheme: t for t in reversed(TYPES.values())}
"""The type to write: of two with one scheme, the lower id, Q8_0 before Q8_1."""

UNSUPPORTED: dict[int, str] = {
    4: "Q4_2", 5: "Q4_3", 15: "Q8_K",
    24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64",
    31: "Q4_0_4_4", 32: "Q4_0_4_8", 33: "Q4_0_8_8",
    # Of bitnet.cpp's fork, in the order of the machine that wrote them, which the file does not say. Its TL2 has the id of MXFP4.
    36: "I2_S of bitnet.cpp", 37: "I8_S of bitnet.cpp", 38: "TL1 of bitnet.cpp",
}  # fmt: skip
