"""rms_norm: y = x / sqrt(mean(x^2) + eps) * weight, with residual add. Its rows give the same bits on every instruction set."""

from fewbit.registry.declare import family

ROWS = family(
    "rms_norm",
    isas=("scalar", "avx2", "avx512"),
    activation="f32",
    exactness="bitwise",
    result_class="rms_norm_f32",
)
