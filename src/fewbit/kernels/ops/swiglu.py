"""swiglu: y = gated(gate, up); gate is columns 0..dim-1 of gate_up, up is dim..2*dim-1.

    gated = g / (1 + exp(-alpha g)) * (u + shift), g = min(gate, limit), u = up within -limit..limit

alpha 1, shift 0, limit inf is silu(gate) * up; gpt-oss has alpha 1.702, shift 1, limit 7.
"""

from __future__ import annotations

import numpy as np

from fewbit.kernels.ops.contract import parse

CONTRACT = parse(
    "swiglu",
    "gate_up:f32[rows_max,2*dim] y:f32[rows_max,dim] rows:i32[1] alpha:float shift:float limit:float",
)


def reference(
    gate_up: np.ndarray, y: np.ndarray, rows: np.ndarray, alpha: float, shift: float, limit: float
) -> None:
    m, dim = int(rows[0]), y.shape[1]
    y[:m] = gated(gate_up[:m, :dim], gate_up[:m, dim:], alpha, shift, limit)


def gated(gate: np.ndarray, up: np.ndarray, alpha: float, shift: float, limit: float) -> np.ndarray:
    """In f64 but for the operands, which are f32."""
    gate, up = np.minimum(gate, np.float32(limit)), np.clip(up, -np.float32(limit), np.float32(limit))
    slope = gate.astype(np.float64) * np.float64(np.float32(alpha))
    with np.errstate(over="ignore"):  # exp(-g) of a very negative gate is infinite, and silu rightly 0
        return gate / (1 + np.exp(-slope)) * (up + np.float32(shift))
