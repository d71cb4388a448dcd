"""embedding: rows of a packed weight decoded exactly, so that a tied embedding reads the head's own tiles."""

from fewbit.registry.declare import GROUP32, PARTS, PLAIN, TWO_LEVEL, family
from fewbit.spec.cell import Constraint

F32 = {"isas": ("scalar",), "activation": "f32", "exactness": "bitwise", "result_class": "embedding_f32"}

ROWS = (
    *family("embedding", schemes=PLAIN, layout="n32k32", **F32),
    *family(
        "embedding", schemes=GROUP32, layout="n32k32", constraints=(Constraint("k", multiple=32),), **F32
    ),
    *family(
        "embedding", schemes=TWO_LEVEL, layout="n32k256", constraints=(Constraint("k", multiple=256),), **F32
    ),
    *family(
        "embedding", schemes=PARTS, layout="n32parts", constraints=(Constraint("k", multiple=32),), **F32
    ),
)
