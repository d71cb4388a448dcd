"""One scheme at one shape: copies of a packed weight that are read in turn, and plans over them for each kernel that serves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from fewbit.bench.dummy import Dummy
from fewbit.bench.schemes import Asked
from fewbit.bench.shapes import Shape
from fewbit.kernels.cpu.backend import CompiledPlan, CpuBackend
from fewbit.kernels.cpu.lower import find
from fewbit.kernels.ops.recorder import Ops
from fewbit.kernels.storage import view
from fewbit.schemes.arrays import Array
from fewbit.schemes.tolerance import linear_tolerance
from fewbit.spec.buffer import Buffer
from fewbit.spec.cell import Choice, KernelRow
from fewbit.spec.dtype import F32, I32

X_ROWS = 32  # activations drawn at random; further rows are these again
STEP_BYTES = 16 << 20  # of weights that one timed call reads, so that starting it costs nothing beside
CHECKED_ROWS = 4


@dataclass(slots=True)
class Operands:
    """Activations by K and results by N, shared by all matrices: for up to `m_max` rows."""

    backend: CpuBackend
    m_max: int
    rows: Buffer = field(init=False)
    inputs: dict[int, Buffer] = field(default_factory=dict)
    outputs: dict[int, Buffer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rows = self.backend.empty((1,), I32)

    def x(self, k: int) -> Buffer:
        if k not in self.inputs:
            drawn = np.random.default_rng(k).standard_normal((min(X_ROWS, self.m_max), k), np.float32)
            self.inputs[k] = self.backend.upload(np.resize(drawn, (self.m_max, k)), F32)
        return self.inputs[k]

    def y(self, n: int) -> Buffer:
        if n not in self.outputs:
            self.outputs[n] = self.backend.empty((self.m_max, n), F32)
        return self.outputs[n]


class Matrix:
    """`copies` of the weight are read one after another, `window` of them by each call of a plan."""

    def __init__(
        self, asked: Asked, shape: Shape, choice: Choice, dummy: Dummy, copies: int, operands: Operands
    ) -> None:
        self.asked, self.shape, self.choice, self.dummy, self.operands = asked, shape, choice, dummy, operands
        self.bytes = dummy.packed.data.shape[0]
        self.weights = [dummy.packed, *(dummy.copy() for _ in range(copies - 1))]
        self.window = max(1, min(STEP_BYTES // self.bytes, copies // 2))
        self.starts = [i * self.window for i in range(copies // self.window)]
        self.last_read = [-1] * len(self.starts)
        self.turn = 0
        self._plans: dict[str, list[CompiledPlan]] = {}

    def plans(self, m: int) -> list[CompiledPlan]:
        """One for each run of copies, with the kernel that serves m rows."""
        row, o = self.choice.row_for(m), self.operands
        if row.name not in self._plans:
            self._plans[row.name] = []
            for start in self.starts:
                ops = Ops(o.backend.selector, m)
                for weight in self.weights[start : start + self.window]:
                    ops.linear(self.choice, o.x(self.shape.k), weight, o.y(self.shape.n), o.rows)
                self._plans[row.name].append(o.backend.compile(ops.plan()))
        return self._plans[row.name]

    def phases(self, row: KernelRow) -> int:
        """Barriers of a step."""
        return int(find(row, self.operands.backend.library).contents.phases)

    def wrong(self, m: int) -> str:
        """Empty when what one call computes for m rows is the product with the dequantized weight, within the scheme's
        tolerance; else what is not."""
        o, (n, k) = self.operands, (self.shape.n, self.shape.k)
        checked = _spread(m)
        x, y = view(o.x(k)), view(o.y(n))
        y[checked] = np.nan
        view(o.rows)[0] = m
        self.plans(m)[0].run()
        return check(x[checked], self.dummy.rows, y[checked], self.choice.row_for(m).activation)


def check(x: Array, rows: Array, y: Array, activation: str) -> str:
    """y [M, N] against x times a weight whose row i is rows[i modulo their number]."""
    if not np.isfinite(y).all():
        return "a result is not finite"
    period = len(rows)
    exact = x.astype(np.float64) @ rows.T.astype(np.float64)
    allowed = linear_tolerance(x, rows, activation)
    for start in range(0, y.shape[1], period):
        piece = y[:, start : start + period]
        width = piece.shape[1]
        outside = ~(np.abs(piece - exact[:, :width]) <= allowed.worst[:, :width])
        if outside.any():
            m, n = (int(i) for i in np.argwhere(outside)[0])
            return f"y[{m},{start + n}] = {piece[m, n]:.7g}, expected {exact[m, n]:.7g} within {allowed.worst[m, n]:.3g}"
    return allowed.check(y[:, :period], exact[:, : y.shape[1]])


def _spread(m: int) -> list[int]:
    """A few of m rows, the first and the last among them."""
    return sorted({round(i * (m - 1) / max(CHECKED_ROWS - 1, 1)) for i in range(CHECKED_ROWS)})


def total_bytes(matrices: Iterable[Matrix]) -> int:
    return sum(matrix.bytes * len(matrix.weights) for matrix in matrices)
