"""pack: canonical parts into panels of 32 n. Portable code; with BMI2 the fields of 8 codes are gathered by one instruction."""

from fewbit.registry.declare import GROUP32, PARTS, PLAIN, TWO_LEVEL, family
from fewbit.spec.cell import Constraint

BYTES = {"isas": ("scalar", "avx2"), "exactness": "bitwise", "result_class": "pack"}

ROWS = (
    *family("pack", schemes=PLAIN, layout="n32k32", **BYTES),
    *family("pack", schemes=GROUP32, layout="n32k32", constraints=(Constraint("k", multiple=32),), **BYTES),
    *family(
        "pack", schemes=TWO_LEVEL, layout="n32k256", constraints=(Constraint("k", multiple=256),), **BYTES
    ),
    *family("pack", schemes=PARTS, layout="n32parts", constraints=(Constraint("k", multiple=32),), **BYTES),
)
