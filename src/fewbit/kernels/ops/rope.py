"""rope: rotates pairs (i, i + rotary_dim/2) of every head in place by the angles of its row.

x[i]' = x[i] cos - x[i+h] sin,  x[i+h]' = x[i+h] cos + x[i] sin,  h = rotary_dim/2. Elements from rotary_dim on stay.
The pairs are half-split (as Hugging Face has them); formats that store them interleaved undo that when they decode.
"""

from __future__ import annotations

import numpy as np

from fewbit.kernels.ops.contract import parse

CONTRACT = parse(
    "rope",
    "x:f32[rows_max,heads*head_dim] cos:f32[rows_max,rotary_dim/2] sin:f32[rows_max,rotary_dim/2] rows:i32[1] "
    "heads:int head_dim:int rotary_dim:int",
)


def reference(
    x: np.ndarray,
    cos: np.ndarray,
    sin: np.ndarray,
    rows: np.ndarray,
    heads: int,
    head_dim: int,
    rotary_dim: int,
) -> None:
    m, half = int(rows[0]), rotary_dim // 2
    vectors = x[:m].reshape(m, heads, head_dim)
    a, b = vectors[..., :half].copy(), vectors[..., half:rotary_dim].copy()
    c, s = cos[:m, None, :], sin[:m, None, :]
    rotated = np.concatenate([a * c - b * s, b * c + a * s, vectors[..., rotary_dim:]], axis=-1)
    x[:m] = rotated.reshape(m, -1)
