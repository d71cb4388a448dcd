"""sample, and gather_rows that brings it the rows whose logits are wanted. Same bits on every instruction set.

gather_rows is a memcpy per row, so one row of it serves every machine.
"""

from fewbit.registry.declare import family

F32 = {"activation": "f32", "exactness": "bitwise"}

ROWS = (
    *family("gather_rows", isas=("scalar",), result_class="gather_rows_f32", **F32),
    *family("sample", isas=("scalar", "avx2", "avx512"), result_class="sample_f32", **F32),
)
