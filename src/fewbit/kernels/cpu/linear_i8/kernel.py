"""linear with 8-bit activations (one scale for each row and group of 32 k): chosen by `--activations 8` only.

All rows of a scheme give the same bits: the integer sums are exact, and generic.h fixes the order of the rest.
"""

from fewbit.registry.declare import GROUP32, TWO_LEVEL, family
from fewbit.spec.cell import M_MAX, Constraint

I8 = {"activation": "i8g32", "exactness": "bitwise", "result_class": "linear_i8g32"}
K32, K256 = (Constraint("k", multiple=32),), (Constraint("k", multiple=256),)
ISAS = ("scalar", "avx2", "avx512_vnni")
AMX_FROM_M = 16  # rows from which tiles win over avx512_vnni; measure with bench.py

ROWS = (
    *family("linear", isas=ISAS, schemes=GROUP32, layout="n32k32", constraints=K32, **I8),
    *family("linear", isas=ISAS, schemes=TWO_LEVEL, layout="n32k256", constraints=K256, **I8),
    *family(
        "linear",
        isas=("amx",),
        schemes=GROUP32,
        layout="n32k32",
        constraints=K32,
        m_range=(AMX_FROM_M, M_MAX),
        **I8,
    ),
    *family(
        "linear",
        isas=("amx",),
        schemes=TWO_LEVEL,
        layout="n32k256",
        constraints=K256,
        m_range=(AMX_FROM_M, M_MAX),
        **I8,
    ),
    # the same code over emulated tiles; tests only
    *family(
        "linear", isas=("scalar",), emulates="amx", schemes=GROUP32, layout="n32k32", constraints=K32, **I8
    ),
    *family(
        "linear",
        isas=("scalar",),
        emulates="amx",
        schemes=TWO_LEVEL,
        layout="n32k256",
        constraints=K256,
        **I8,
    ),
)
