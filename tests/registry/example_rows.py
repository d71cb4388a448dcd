"""A small table with every kind of row, so that selection is tested apart from the kernels that exist today."""

from __future__ import annotations

from fewbit.registry.declare import GROUP32, PLAIN, TWO_LEVEL, family
from fewbit.spec.cell import M_MAX, Constraint, Platform
from fewbit.spec.features import ISAS

AMX_FROM_M = 16
F32 = {"activation": "f32", "exactness": "bitwise", "result_class": "linear_f32"}
BF16 = {"activation": "bf16", "result_class": "linear_bf16_amx"}
K32, K256 = (Constraint("k", multiple=32),), (Constraint("k", multiple=256),)
VECTOR = ("scalar", "avx2", "avx512")
I8G32 = {"i8g32": ("f16",)}

ROWS = (
    *family("linear", schemes=GROUP32, isas=VECTOR, layout="n32k32", constraints=K32, **F32),
    *family("linear", schemes=PLAIN, isas=VECTOR, layout="n32k32", **F32),
    *family("linear", schemes=TWO_LEVEL, isas=VECTOR[1:], layout="n32k256", constraints=K256, **F32),
    *family(
        "linear",
        schemes=GROUP32,
        isas=("amx",),
        layout="n32k32",
        constraints=K32,
        m_range=(AMX_FROM_M, M_MAX),
        **BF16,
    ),
    *family(
        "linear", schemes=GROUP32, isas=("scalar",), emulates="amx", layout="n32k32", constraints=K32, **BF16
    ),
    *family(
        "linear", schemes=I8G32, isas=("avx512_vnni",), activation="i8g32", layout="n32k32", m_range=(1, 31)
    ),
    *family(
        "linear", schemes={"u4g128z": ("f16",)}, isas=("reference",), activation="f32", layout="canonical"
    ),
    *family("linear", schemes=GROUP32, isas=("reference",), activation="f32", layout="canonical"),
    *family("pack", schemes=GROUP32, isas=("scalar", "avx2"), layout="n32k32"),
    *family("rms_norm", isas=("scalar", "avx2"), activation="f32"),
    *family(
        "attention",
        schemes={"bf16": ()},
        isas=("scalar", "avx2"),
        activation="f32",
        phase="decode",
        constraints=(Constraint("head_dim", multiple=16, least=16, most=256),),
    ),
)


def platform(isa: str) -> Platform:
    return Platform(f"x86_{isa}", ISAS[isa].requires)
