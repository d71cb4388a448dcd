"""The timing loop: every scheme, shape and M once a round, in an order that rotates, and never on weights that a cache still has."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from fewbit.bench.matrix import Matrix
from fewbit.kernels.storage import view


@dataclass(slots=True)
class Timed:
    """A matrix at m rows, and the seconds of one product, one a round. `fault` says how its answer is wrong, if it is."""

    matrix: Matrix
    m: int
    fault: str = ""
    seconds: list[float] = field(default_factory=list)


class Rotation:
    """Between two reads of one weight at least `rotate_bytes` of others are read: by the other products, and where those were
    not enough by `evict`, which reads that much of something else."""

    def __init__(self, rotate_bytes: int, evict: Callable[[], None]) -> None:
        self.rotate_bytes, self.evict = rotate_bytes, evict
        self.read_bytes = self.evictions = 0

    def run(self, cell: Timed) -> float:
        """Seconds of one product, the mean over a call's window of copies."""
        matrix = cell.matrix
        index = matrix.turn = (matrix.turn + 1) % len(matrix.starts)
        last = matrix.last_read[index]
        if last >= 0 and self.read_bytes - last < self.rotate_bytes:
            self.evict()
            self.evictions += 1
        plan = matrix.plans(cell.m)[index]
        view(matrix.operands.rows)[0] = cell.m
        start = time.perf_counter()
        plan.run()
        seconds: float = time.perf_counter() - start
        self.read_bytes += matrix.window * matrix.bytes
        matrix.last_read[index] = self.read_bytes
        return seconds / matrix.window


def measure(
    cells: Sequence[Timed], rounds: int, rotation: Rotation, until: float, said: Callable[[str], None]
) -> None:
    """Fills in `seconds`. No round but the first is begun that would not end by `until` (of time.monotonic)."""
    spent = 0.0
    for i in range(rounds):
        start = time.monotonic()
        if i and start + spent > until:
            said(f"{i} of {rounds} rounds, since the time is over")
            return
        first = i * len(cells) // rounds
        for cell in (*cells[first:], *cells[:first]):
            cell.seconds.append(rotation.run(cell))
        spent = time.monotonic() - start
