"""linear on AMX tiles, activations in BF16. Rows named bf16 take weights exactly; rows named bf16w round codes to BF16 as they are
decoded, which spares the scale after each group and so pays where many rows meet a weight. Below FROM_M rows the avx512 rows of f32
activations serve from the same packed weight.
"""

from fewbit.registry.declare import GROUP32, PARTS, PLAIN, TWO_LEVEL, family
from fewbit.spec.cell import M_MAX, Constraint
from fewbit.spec.features import ISAS

FROM_M = 5  # rows from which tiles win over avx512; measure with bench.py
ROUNDED_FROM_M = 33  # rows from which rounded weights win over exact ones
EXACT = {
    "activation": "bf16",
    "exactness": "tolerance",
    "result_class": "linear_bf16_amx",
    "norm_rows": M_MAX,
}
ROUNDED = {
    "activation": "bf16w",
    "exactness": "tolerance",
    "result_class": "linear_bf16w_amx",
    "norm_rows": M_MAX,
}
K32, K256 = (Constraint("k", multiple=32),), (Constraint("k", multiple=256),)
G32 = {"schemes": GROUP32, "layout": "n32k32", "constraints": K32}
G256 = {"schemes": TWO_LEVEL, "layout": "n32k256", "constraints": K256}
APART = {"schemes": PARTS, "layout": "n32parts", "constraints": K32}
FLOATS = {"schemes": PLAIN, "layout": "n32k32"}
TILES = {"isas": ("amx",), "m_range": (FROM_M, M_MAX)}
TALL = {"isas": ("amx",), "m_range": (ROUNDED_FROM_M, M_MAX), "priority": ISAS["amx"].priority + 1}
EMULATED = {"isas": ("scalar",), "emulates": "amx"}  # the same code over emulated tiles; tests only

ROWS = (
    *family("linear", **FLOATS, **TILES, **EXACT),
    *family("linear", **G32, **TILES, **EXACT),
    *family("linear", **G256, **TILES, **EXACT),
    *family("linear", **G32, **TALL, **ROUNDED),
    *family("linear", **G256, **TALL, **ROUNDED),
    *family("linear", **APART, **TALL, **ROUNDED),
    *family("linear", **FLOATS, **EMULATED, **EXACT),
    *family("linear", **G32, **EMULATED, **EXACT),
    *family("linear", **G256, **EMULATED, **EXACT),
    *family("linear", **G32, **EMULATED, **ROUNDED),
    *family("linear", **G256, **EMULATED, **ROUNDED),
    *family("linear", **APART, **EMULATED, **ROUNDED),
)
