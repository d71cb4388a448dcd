"""swiglu: silu(gate) * up. Its rows give the same bits on every instruction set."""

from fewbit.registry.declare import family

ROWS = family(
    "swiglu",
    isas=("scalar", "avx2", "avx512"),
    activation="f32",
    exactness="bitwise",
    result_class="swiglu_f32",
)
