"""rope_angles: cos, sin of f32(position) * inv_freq[i], times `scale` (yarn's attention scaling, else 1).

The product is rounded to f32 as the models were trained with; cosine and sine are then evaluated in double, so that every
instruction set gives the same bits. Once per step, for all layers.
"""

from __future__ import annotations

import numpy as np

from fewbit.kernels.ops.contract import parse

CONTRACT = parse(
    "rope_angles",
    "positions:i32[rows_max] inv_freq:f32[half_dim] cos:f32[rows_max,half_dim] sin:f32[rows_max,half_dim] rows:i32[1] scale:float",
)


def reference(
    positions: np.ndarray,
    inv_freq: np.ndarray,
    cos: np.ndarray,
    sin: np.ndarray,
    rows: np.ndarray,
    scale: float,
) -> None:
    m = int(rows[0])
    angles = (positions[:m, None].astype(np.float32) * inv_freq).astype(np.float64)
    cos[:m] = np.cos(angles) * np.float32(scale)
    sin[:m] = np.sin(angles) * np.float32(scale)
