"""embedding: y[r,:] = W[ids[r],:], decoded exactly from the packed tiles (those of the head, when they are tied)."""

from __future__ import annotations

import numpy as np

from fewbit.kernels.ops.contract import parse

CONTRACT = parse("embedding", "ids:i32[rows_max] weight:packed[n,k] y:f32[rows_max,k] rows:i32[1]")


def reference(ids: np.ndarray, weight: np.ndarray, y: np.ndarray, rows: np.ndarray) -> None:
    m = int(rows[0])
    y[:m] = weight[ids[:m]]
