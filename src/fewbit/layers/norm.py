"""RMS norm, over rows or over the heads of a row."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.kernels.ops.recorder import Ops
from fewbit.spec.buffer import Buffer


@dataclass(frozen=True, slots=True)
class RmsNorm:
    weight: Buffer
    eps: float

    def record(self, ops: Ops, x: Buffer, y: Buffer, rows: Buffer) -> None:
        ops.rms_norm(x, self.weight, y, rows, eps=self.eps)

    def record_heads(self, ops: Ops, x: Buffer, rows: Buffer, heads: int, *, overlap: bool = False) -> None:
        """In place, each head of `x` [T, heads * head_dim] for itself."""
        ops.rms_norm(x, self.weight, x, rows, eps=self.eps, rows_per=heads, overlap=overlap)
