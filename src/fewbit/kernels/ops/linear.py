"""linear: y[m,n] (+)= sum_k x[m,k] * W[n,k] + bias[n]

x and y are f32; W is packed in its layout and means what its scheme says. `accumulate` 1 adds into y, which is then the
residual stream. Kernels may round x to their activation type (bf16, i8g32) on entry; accumulation is f32.
The reference takes W dequantized, [n, k] f32.
"""

from __future__ import annotations

import numpy as np

from fewbit.kernels.ops.contract import parse

CONTRACT = parse(
    "linear", "x:f32[rows_max,k] weight:packed[n,k] bias:f32[n]? y:f32[rows_max,n] rows:i32[1] accumulate:int"
)


def reference(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    y: np.ndarray,
    rows: np.ndarray,
    accumulate: int,
) -> None:
    m = int(rows[0])
    result = x[:m] @ weight.T
    if bias is not None:
        result += bias
    y[:m] = y[:m] + result if accumulate else result
