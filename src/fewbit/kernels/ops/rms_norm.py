"""rms_norm: y = x / sqrt(mean(x^2) + eps) * weight, over vectors of `dim`; `rows_per` vectors lie in a row of x.

rows_per is 1 for the norms of the residual stream and the number of heads for a query or key norm. y may be x. With
`residual` r: r += x first (in place), and y = norm(r) * weight.
"""

from __future__ import annotations

import numpy as np

from fewbit.kernels.ops.contract import parse

CONTRACT = parse(
    "rms_norm",
    "x:f32[rows_max,rows_per*dim] weight:f32[dim] y:f32[rows_max,rows_per*dim] "
    "residual:f32[rows_max,rows_per*dim]? rows:i32[1] rows_per:int eps:float",
)


def reference(
    x: np.ndarray,
    weight: np.ndarray,
    y: np.ndarray,
    residual: np.ndarray | None,
    rows: np.ndarray,
    rows_per: int,
    eps: float,
) -> None:
    m = int(rows[0])
    if residual is not None:
        residual[:m] += x[:m]
        x = residual
    y[:m] = normalized(x[:m].reshape(m, rows_per, -1), weight, eps).reshape(m, -1)


def normalized(vectors: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    """Over the last axis."""
    mean = np.mean(vectors.astype(np.float64) ** 2, axis=-1, keepdims=True)
    scaled: np.ndarray = vectors * (1.0 / np.sqrt(mean + np.float32(eps))).astype(np.float32)
    return scaled * weight
