"""One reference row for every op and scheme: numpy, slow, chosen only when the reference backend is asked for."""

from __future__ import annotations

from fewbit.registry.declare import GROUP32, PLAIN, TWO_LEVEL, family
from fewbit.spec.cell import ANY_SCHEME

WEIGHTS = {**PLAIN, **GROUP32, **TWO_LEVEL}
CACHES: dict[str, tuple[str, ...]] = {"bf16": (), "f32": ()}
REFERENCE = {"isas": ("reference",)}
F32 = {**REFERENCE, "activation": "f32"}

ANY: dict[str, tuple[str, ...]] = {
    ANY_SCHEME: ()
}  # what only a format knows so far: dequantized by its own reference

ROWS = (
    *family("linear", schemes=ANY, layout="canonical", **F32),
    *family("embedding", schemes=ANY, layout="canonical", **REFERENCE),
    *family("pack", schemes=ANY, layout="canonical", **REFERENCE),
    *family("linear", schemes=WEIGHTS, layout="canonical", **F32),
    *family("embedding", schemes=WEIGHTS, layout="canonical", **REFERENCE),
    *family("pack", schemes=WEIGHTS, layout="canonical", **REFERENCE),
    *family("rms_norm", **F32),
    *family("rope_angles", **F32),
    *family("rope", **F32),
    *family("kv_store", schemes=CACHES, **F32),
    *family("swiglu", **F32),
    *family("attention", schemes=CACHES, **F32),
    *family("gather_rows", **F32),
    *family("sample", **F32),
)
