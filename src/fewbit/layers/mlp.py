"""The gated feed-forward layer: down(gated(gate(h), up(h))), added to the residual stream."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.kernels.ops.gate import SILU, Gate
from fewbit.kernels.ops.recorder import Ops
from fewbit.layers.linear import Linear
from fewbit.spec.buffer import Buffer


@dataclass(frozen=True, slots=True)
class GatedMlp:
    gate_up: Linear
    down: Linear
    gate: Gate = SILU

    def record(
        self, ops: Ops, h: Buffer, residual: Buffer, rows: Buffer, gate_up: Buffer, gated: Buffer
    ) -> None:
        """`gate_up` [T, 2 I] and `gated` [T, I] are working buffers; the first stays untouched where the linear folds."""
        if self.gate_up.folds:
            self.gate_up.record_gated(ops, h, gated, rows, self.gate)
        else:
            self.gate_up.record(ops, h, gate_up, rows)
            ops.swiglu(gate_up, gated, rows, self.gate)
        self.down.record(ops, gated, residual, rows, accumulate=True)
