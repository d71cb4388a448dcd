"""gather_rows: y[r,:] = x[index[r],:]. Keeps the rows of a step whose logits are wanted."""

from __future__ import annotations

import numpy as np

from fewbit.kernels.ops.contract import parse

CONTRACT = parse("gather_rows", "x:f32[rows_all,dim] index:i32[rows_max] y:f32[rows_max,dim] rows:i32[1]")


def reference(x: np.ndarray, index: np.ndarray, y: np.ndarray, rows: np.ndarray) -> None:
    m = int(rows[0])
    y[:m] = x[index[:m]]
