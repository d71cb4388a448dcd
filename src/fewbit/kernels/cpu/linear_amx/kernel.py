"""linear with BF16 activations on AMX tiles: weights enter exactly, only x is rounded. Below FROM_M rows the avx512 rows of f32
activations serve from the same packed weight.
"""

from fewbit.registry.declare import GROUP32, PLAIN, TWO_LEVEL, family
from fewbit.spec.cell import M_MAX, Constraint

FROM_M = 9  # rows from which tiles win over avx512; measure with bench.py
BF16 = {"activation": "bf16", "exactness": "tolerance", "result_class": "linear_bf16_amx"}
K32, K256 = (Constraint("k", multiple=32),), (Constraint("k", multiple=256),)

ROWS = (
    *family("linear", isas=("amx",), schemes=PLAIN, layout="n32k32", m_range=(FROM_M, M_MAX), **BF16),
    *family(
        "linear",
        isas=("amx",),
        schemes=GROUP32,
        layout="n32k32",
        constraints=K32,
        m_range=(FROM_M, M_MAX),
        **BF16,
    ),
    *family(
        "linear",
        isas=("amx",),
        schemes=TWO_LEVEL,
        layout="n32k256",
        constraints=K256,
        m_range=(FROM_M, M_MAX),
        **BF16,
    ),
    # the same code over emulated tiles; tests only
    *family("linear", isas=("scalar",), emulates="amx", schemes=PLAIN, layout="n32k32", **BF16),
    *family(
        "linear", isas=("scalar",), emulates="amx", schemes=GROUP32, layout="n32k32", constraints=K32, **BF16
    ),
    *family(
        "linear",
        isas=("scalar",),
        emulates="amx",
        schemes=TWO_LEVEL,
        layout="n32k256",
        constraints=K256,
        **BF16,
    ),
)
