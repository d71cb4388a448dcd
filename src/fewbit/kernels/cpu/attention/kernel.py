"""attention over bf16 pages of 32 tokens. The f32 rows give the same bits on every instruction set.

The AMX rows round queries and softmax weights to bf16, and are asked for by phase: their tiles are 16 rows high, so a decode
step, which has as many rows as query heads share a key head, is better served by the f32 rows.
"""

from fewbit.registry.declare import family
from fewbit.spec.cell import Constraint

CACHE = {"schemes": {"bf16": ()}, "layout": "paged32", "exactness": "bitwise"}
F32 = {**CACHE, "activation": "f32", "result_class": "attention_bf16_f32"}
TILES = {**CACHE, "activation": "bf16", "result_class": "attention_bf16_bf16", "phase": "prefill"}

HEAD_DIM_16 = (Constraint("head_dim", multiple=16, most=512),)
HEAD_DIM_32 = (Constraint("head_dim", multiple=32, most=512),)

ROWS = (
    *family("attention", isas=("scalar", "avx2", "avx512"), constraints=HEAD_DIM_16, **F32),
    *family("attention", isas=("amx",), constraints=HEAD_DIM_32, **TILES),
    *family("attention", isas=("scalar",), emulates="amx", constraints=HEAD_DIM_32, **TILES),
)
