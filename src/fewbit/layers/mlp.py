"""The gated feed-forward layer: down(silu(gate(h)) * up(h)), added to the residual stream."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.kernels.ops.recorder import Ops
from fewbit.layers.linear import Linear
from fewbit.spec.buffer import Buffer


@dataclass(frozen=True, slots=True)
class GatedMlp:
    gate_up: Linear
    down: Linear

    def record(
        self, ops: Ops, h: Buffer, residual: Buffer, rows: Buffer, gate_up: Buffer, gated: Buffer
    ) -> None:
        """`gate_up` [T, 2 I] and `gated` [T, I] are working buffers."""
        self.gate_up.record(ops, h, gate_up, rows)
        ops.swiglu(gate_up, gated, rows)
        self.down.record(ops, gated, residual, rows, accumulate=True)
