"""kv_store: f32 keys and values into bf16 pages of 32 tokens, rounded to nearest even. Same bits on every instruction set."""

from fewbit.registry.declare import family
from fewbit.spec.cell import Constraint

ROWS = family(
    "kv_store",
    isas=("scalar", "avx2", "avx512"),
    schemes={"bf16": ()},
    activation="f32",
    layout="paged32",
    constraints=(Constraint("head_dim", multiple=16),),
    exactness="bitwise",
    result_class="kv_store_bf16",
)
