"""attention over bf16 pages of 32 tokens. The f32 rows give the same bits on every instruction set."""

from fewbit.registry.declare import family
from fewbit.spec.cell import Constraint

ROWS = family(
    "attention",
    isas=("scalar", "avx2", "avx512"),
    schemes={"bf16": ()},
    activation="f32",
    layout="paged32",
    constraints=(Constraint("head_dim", multiple=16, most=512),),
    exactness="bitwise",
    result_class="attention_bf16_f32",
)
