"""linear with 8-bit activations, one scale a row: what W8A8 and W4A8 checkpoints declare.

All rows of a scheme give the same bits: the integer sums are exact, and generic.h fixes the order of the rest.
"""

from fewbit.registry.declare import INTEGERS, family
from fewbit.spec.cell import M_MAX, Constraint

I8 = {"activation": "i8token", "exactness": "bitwise", "result_class": "linear_i8token", "layout": "n32parts"}
ISAS = ("scalar", "avx2", "avx512_vnni")
AMX_FROM_M = 17  # rows from which tiles win over avx512_vnni; measure with linear_i8/bench.py
MOST_K, MOST_K_WITH_ZEROS = 65536, 32768  # the integer sums of a row fit in 32 bits
ZEROS = {name: scales for name, scales in INTEGERS.items() if name.endswith("z")}
OTHERS = {name: scales for name, scales in INTEGERS.items() if not name.endswith("z")}

ROWS = tuple(
    row
    for schemes, most in ((OTHERS, MOST_K), (ZEROS, MOST_K_WITH_ZEROS))
    for how in (
        {"isas": ISAS},
        {"isas": ("amx",), "m_range": (AMX_FROM_M, M_MAX)},
        {"isas": ("scalar",), "emulates": "amx"},  # the same code over emulated tiles; tests only
    )
    for row in family(
        "linear", schemes=schemes, constraints=(Constraint("k", multiple=32, most=most),), **how, **I8
    )
)
