"""Linear: one packed matrix, or several side by side where merged projections differ in scheme."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fewbit.kernels.ops.gate import Gate
from fewbit.kernels.ops.input_codes import UNSAID, InputCodes
from fewbit.kernels.ops.recorder import Ops
from fewbit.layers.norm import RmsNorm
from fewbit.spec.buffer import Buffer
from fewbit.spec.cell import Choice
from fewbit.spec.layout import PackedTensor


@dataclass(frozen=True, slots=True)
class LinearBlock:
    weight: PackedTensor
    bias: Buffer | None
    choice: Choice
    inputs: InputCodes = UNSAID


@dataclass(frozen=True, slots=True)
class Linear:
    blocks: tuple[LinearBlock, ...]

    @property
    def n(self) -> int:
        return sum(block.weight.n for block in self.blocks)

    @property
    def folds(self) -> bool:
        """Whether a gate can be computed where the sums are: gate and up rows in one matrix, parted between two panels."""
        return len(self.blocks) == 1 and self.n % (2 * self.blocks[0].weight.layout.panel_n) == 0

    def record_normed(
        self,
        ops: Ops,
        norm: RmsNorm,
        x: Buffer,
        normed: Buffer,
        y: Buffer,
        rows: Buffer,
        gate: Gate | None = None,
    ) -> None:
        """y = norm(x) W^T + bias, with the norm as the linear's prologue where its row does that, else by way of `normed`. With
        `gate`, for a linear that `folds`, y[..., n/2] is the gate of the first and the second half of the rows."""
        block = self.blocks[0]
        beside: Any = {"bias": block.bias, "inputs": block.inputs}
        if len(self.blocks) == 1 and ops.norms(block.choice):
            prologue = (norm.weight, norm.eps)
            ops.linear(block.choice, x, block.weight, y, rows, norm=prologue, gate=gate, **beside)
            return
        norm.record(ops, x, normed, rows)
        if gate:
            ops.linear(block.choice, normed, block.weight, y, rows, gate=gate, **beside)
        else:
            self.record(ops, normed, y, rows)

    def record(self, ops: Ops, x: Buffer, y: Buffer, rows: Buffer, *, accumulate: bool = False) -> None:
        """y[..., columns of each block] (+)= x W^T + bias, over any leading axes. Blocks are independent, so no barrier parts
        them."""
        x, y, start = x.as_rows(), y.as_rows(), 0
        for index, block in enumerate(self.blocks):
            stop = start + block.weight.n
            overlap = index < len(self.blocks) - 1
            ops.linear(
                block.choice,
                x,
                block.weight,
                y.columns(start, stop),
                rows,
                bias=block.bias,
                inputs=block.inputs,
                accumulate=accumulate,
                overlap=overlap,
            )
            start = stop
