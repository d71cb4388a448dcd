"""The gated feed-forward layer: down(gated(gate(h), up(h))), added to the residual stream."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.kernels.ops.gate import SILU, Gate
from fewbit.kernels.ops.recorder import Ops
from fewbit.layers.linear import Linear
from fewbit.layers.norm import RmsNorm
from fewbit.spec.buffer import Buffer


@dataclass(frozen=True, slots=True)
class GatedMlp:
    gate_up: Linear
    down: Linear
    gate: Gate = SILU

    def record(
        self,
        ops: Ops,
        norm: RmsNorm,
        normed: Buffer,
        residual: Buffer,
        rows: Buffer,
        gate_up: Buffer,
        gated: Buffer,
    ) -> None:
        """h = norm(residual). `normed` [T, D], `gate_up` [T, 2 I] and `gated` [T, I] are working buffers; the second stays untouched where the linear folds."""
        if self.gate_up.folds:
            self.gate_up.record_normed(ops, norm, residual, normed, gated, rows, self.gate)
        else:
            self.gate_up.record_normed(ops, norm, residual, normed, gate_up, rows)
            ops.swiglu(gate_up, gated, rows, self.gate)
        self.down.record(ops, gated, residual, rows, accumulate=True)
