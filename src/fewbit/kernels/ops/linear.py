"""linear: y[m,n] (+)= sum_k x[m,k] * W[n,k] + bias[n]; with `fold` 2, y[m,i] = gated(that of row i, that of row n/2 + i)

With `norm`, x is first normed as ops/rms_norm.py does, over the whole row. x and y are f32; W is packed in its layout and means
what its scheme says. `accumulate` 1 adds into y, which is then the residual stream. `fold` is 1, or 2 where W is n/2 rows of a gate projection above those of the up projection, n a multiple
of 64: what ops/swiglu.py does with `alpha`, `shift` and `limit` is then done where the sums are, and y has n/2 columns.
Kernels may round x to their activation type (bf16, i8g32, i8token) on entry; accumulation is f32. With an `input_kind` of
ops/input_codes.py, x is rounded as that says: for rows of i8token activations.
The reference takes W dequantized, [n, k] f32.
"""

from __future__ import annotations

import numpy as np

from fewbit.kernels.ops.contract import parse
from fewbit.kernels.ops.input_codes import NONE, rounded
from fewbit.kernels.ops.rms_norm import normalized
from fewbit.kernels.ops.swiglu import gated

CONTRACT = parse(
    "linear",
    "x:f32[rows_max,k] weight:packed[n,k] bias:f32[n]? norm:f32[k]? y:f32[rows_max,n/fold] rows:i32[1] accumulate:int fold:int "
    "alpha:float shift:float limit:float eps:float input_kind:int input_scale:float input_zero:int",
)


def reference(
    x: np.ndarray,
    weight: np.ndarray,
    bias: np.ndarray | None,
    norm: np.ndarray | None,
    y: np.ndarray,
    rows: np.ndarray,
    accumulate: int,
    fold: int,
    alpha: float,
    shift: float,
    limit: float,
    eps: float,
    input_kind: int,
    input_scale: float,
    input_zero: int,
) -> None:
    m = int(rows[0])
    if norm is not None:
        x = normalized(x[:m], norm, eps)
    if input_kind != NONE:
        x = rounded(x[:m], input_kind, input_scale, input_zero)
    result = x[:m] @ weight.T
    if bias is not None:
        result += bias
    if fold == 2:
        result = gated(*np.split(result, 2, axis=1), alpha, shift, limit)
    y[:m] = y[:m] + result if accumulate else result
