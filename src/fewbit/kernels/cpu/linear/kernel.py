"""linear with f32 activations, for every scheme. All its rows give the same bits, at any M, thread count and instruction set."""

from fewbit.registry.declare import GROUP32, PARTS, PLAIN, TWO_LEVEL, family
from fewbit.spec.cell import Constraint

ISAS = ("scalar", "avx2", "avx512")
F32 = {"activation": "f32", "exactness": "bitwise", "result_class": "linear_f32"}

ROWS = (
    *family("linear", isas=ISAS, schemes=PLAIN, layout="n32k32", **F32),
    *family(
        "linear",
        isas=ISAS,
        schemes=GROUP32,
        layout="n32k32",
        constraints=(Constraint("k", multiple=32),),
        **F32,
    ),
    *family(
        "linear",
        isas=ISAS,
        schemes=TWO_LEVEL,
        layout="n32k256",
        constraints=(Constraint("k", multiple=256),),
        **F32,
    ),
    *family(
        "linear",
        isas=ISAS,
        schemes=PARTS,
        layout="n32parts",
        constraints=(Constraint("k", multiple=32),),
        **F32,
    ),
)
