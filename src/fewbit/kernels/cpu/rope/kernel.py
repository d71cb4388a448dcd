"""rope and its angles. The angles come from libm in double, once a step, so one row of them serves every machine."""

from fewbit.registry.declare import family

F32 = {"activation": "f32", "exactness": "bitwise"}

ROWS = (
    *family("rope_angles", isas=("scalar",), result_class="rope_angles_f32", **F32),
    *family("rope", isas=("scalar", "avx2", "avx512"), result_class="rope_f32", **F32),
)
