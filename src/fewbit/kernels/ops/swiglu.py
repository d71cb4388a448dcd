"""swiglu: y = silu(gate) * up, silu(g) = g / (1 + exp(-g)); gate is columns 0..dim-1 of gate_up, up is dim..2*dim-1."""

from __future__ import annotations

import numpy as np

from fewbit.kernels.ops.contract import parse

CONTRACT = parse("swiglu", "gate_up:f32[rows_max,2*dim] y:f32[rows_max,dim] rows:i32[1]")


def reference(gate_up: np.ndarray, y: np.ndarray, rows: np.ndarray) -> None:
    m, dim = int(rows[0]), y.shape[1]
    gate, up = gate_up[:m, :dim], gate_up[:m, dim:]
    with np.errstate(over="ignore"):  # exp(-g) of a very negative gate is infinite, and silu rightly 0
        y[:m] = gate / (1 + np.exp(-gate.astype(np.float64))) * up
