"""linear with f32 activations, for every scheme. All its rows give the same bits, at any M, thread count and instruction set."""

from fewbit.registry.declare import GROUP32, PARTS, PLAIN, TWO_LEVEL, family
from fewbit.spec.cell import Constraint

F32 = {"activation": "f32", "exactness": "bitwise", "result_class": "linear_f32"}
NORM_ROWS = {"scalar": 1, "avx2": 5, "avx512": 4}  # kFusedRows of tile.h
K32, K256 = (Constraint("k", multiple=32),), (Constraint("k", multiple=256),)

ROWS = tuple(
    row
    for isa, rows in NORM_ROWS.items()
    for held in (
        {"schemes": PLAIN, "layout": "n32k32"},
        {"schemes": GROUP32, "layout": "n32k32", "constraints": K32},
        {"schemes": TWO_LEVEL, "layout": "n32k256", "constraints": K256},
        {"schemes": PARTS, "layout": "n32parts", "constraints": K32},
    )
    for row in family("linear", isas=(isa,), norm_rows=rows, **held, **F32)
)
