"""`fewbit bench linear`: which matrices are measured, and what is known of each afterwards."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from fewbit.bench import roofs as bounds
from fewbit.bench.dummy import pack_dummy
from fewbit.bench.matrix import Matrix, Operands
from fewbit.bench.roofs import Bound, Roofs
from fewbit.bench.schemes import Asked
from fewbit.bench.shapes import Shape
from fewbit.bench.timing import Rotation, Timed, measure
from fewbit.kernels.cpu.backend import CpuBackend
from fewbit.kernels.cpu.roofs import Probes
from fewbit.layers.method import choose_matrix
from fewbit.platforms.linux.memory import memory_available
from fewbit.spec.cell import Choice, KernelRow
from fewbit.spec.refusal import FewbitError, RefusedError

MARGIN = 1.25  # of resident weights over those that must lie between two reads of one
MEMORY_SHARE = 0.6  # of the memory available, for weights


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to be measured. `rotate_bytes`: see timing.Rotation; `seconds` bounds the rounds."""

    schemes: tuple[Asked, ...]
    shapes: tuple[Shape, ...]
    rows: tuple[int, ...]
    activations: str
    rounds: int
    rotate_bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Result:
    """One cell. `seconds` is the median of one product, `roof` what bounds it; `step` is seconds over those of M=1 (0: not measured)."""

    asked: Asked
    shape: Shape
    m: int
    row: KernelRow
    weight_bytes: int
    seconds: tuple[float, ...]
    roofs: Roofs
    roof: Bound
    peak: tuple[str, float]
    step: float
    fault: str

    @property
    def median(self) -> float:
        return median(self.seconds)

    @property
    def operations(self) -> int:
        return 2 * self.m * self.shape.n * self.shape.k

    @property
    def bytes_per_s(self) -> float:
        return self.weight_bytes / self.median

    @property
    def ops_per_s(self) -> float:
        return self.operations / self.median


@dataclass(frozen=True, slots=True)
class Report:
    """`before` and `after` are the roofs measured around the rounds; `refused` one sentence for each matrix that nothing serves,
    `notes` where 8-bit activations were not had."""

    results: tuple[Result, ...]
    refused: tuple[str, ...]
    notes: tuple[str, ...]
    before: Roofs
    after: Roofs
    threads: int
    resident_bytes: int


def run(wish: Wish, backend: CpuBackend, said: Callable[[str], None]) -> Report:
    """`said` is told what goes on. RefusedError when nothing at all is served."""
    backend.claim_thread()
    chosen, refused, notes = choose(wish, backend)
    until = time.monotonic() + wish.seconds
    said(f"packing random weights: {len(chosen)} matrices")
    matrices = pack(chosen, wish, backend)
    resident = sum(matrix.bytes * len(matrix.weights) for matrix in matrices)
    cells = [Timed(matrix, m) for m in wish.rows for matrix in matrices]
    said(f"checking {len(cells)} answers")
    for cell in cells:
        cell.fault = cell.matrix.wrong(cell.m)
    provides = backend.selector.platform.provides
    probe = Probes(backend.pool, least_bytes=wish.rotate_bytes)
    said("measuring the roofs")
    before = bounds.measure(provides, probe)
    said(f"timing {wish.rounds} rounds over {resident / 1e9:.1f} GB of weights")
    rotation = Rotation(wish.rotate_bytes, probe.evict)
    measure(cells, wish.rounds, rotation, until, said)
    after = bounds.measure(provides, probe)
    results = judge(cells, bounds.mean((before, after)))
    return Report(results, refused, notes, before, after, backend.threads, resident)


def choose(
    wish: Wish, backend: CpuBackend
) -> tuple[list[tuple[Asked, Shape, Choice]], tuple[str, ...], tuple[str, ...]]:
    """As serving chooses: the same cell, asked of the same selector."""
    chosen, refused, notes = [], [], []
    for asked in wish.schemes:
        for shape in wish.shapes:
            try:
                scheme = asked.of(shape.k)
                if shape.k % scheme.block_k and scheme.granularity.sharing == "group":
                    refused.append(f"{asked.name} {shape}: K is no multiple of {scheme.block_k}")
                    continue
                choice, note = choose_matrix(
                    f"{asked.name} {shape}",
                    scheme,
                    shape.n,
                    shape.k,
                    backend.selector,
                    asked.activations(wish.activations),
                )
            except RefusedError as error:
                refused.append(str(error))
                continue
            chosen.append((asked, shape, choice))
            notes += [note] if note else []
    if not chosen:
        raise FewbitError(refused[0])
    return chosen, tuple(refused), tuple(dict.fromkeys(notes))


def pack(chosen: Sequence[tuple[Asked, Shape, Choice]], wish: Wish, backend: CpuBackend) -> list[Matrix]:
    """As many copies of each as it takes for all together to exceed `rotate_bytes`, 2 at least."""
    operands = Operands(backend, max(wish.rows))
    size = 0
    for asked, shape, choice in chosen:
        layout = backend.layout(choice.layout, asked.of(shape.k))
        size += backend.packed_bytes(layout, shape.n, shape.k)
    copies = max(2, int(-(-MARGIN * wish.rotate_bytes // size)))
    for axis in {shape.k for _, shape, _ in chosen}:
        operands.x(axis)
    available = memory_available()
    if copies * size > MEMORY_SHARE * available:
        raise FewbitError(
            f"{copies} copies of {len(chosen)} matrices take {copies * size / 1e9:.1f} GB, and {available / 1e9:.1f} GB of memory are "
            "free; name fewer --schemes or --shapes in one run"
        )
    rng = np.random.default_rng(0)
    return [
        Matrix(
            asked,
            shape,
            choice,
            pack_dummy(backend, asked.of(shape.k), choice.layout, shape.n, shape.k, rng),
            copies,
            operands,
        )
        for asked, shape, choice in chosen
    ]


def judge(cells: Sequence[Timed], measured: Roofs) -> tuple[Result, ...]:
    """In the order of schemes, shapes and rows."""
    alone = {id(cell.matrix): median(cell.seconds) for cell in cells if cell.m == 1}
    matrices = list(dict.fromkeys(cell.matrix for cell in cells))
    place = {id(matrix): i for i, matrix in enumerate(matrices)}
    results = []
    for cell in sorted(cells, key=lambda cell: (place[id(cell.matrix)], cell.m)):
        matrix, shape = cell.matrix, cell.matrix.shape
        row = matrix.choice.row_for(cell.m)
        peak = measured.peak(row)
        roof = bounds.bound(
            matrix.bytes, 2 * cell.m * shape.n * shape.k, matrix.phases(row), measured, peak[1]
        )
        one = alone.get(id(matrix), 0.0)
        step = median(cell.seconds) / one if one else 0.0
        results.append(
            Result(
                matrix.asked, shape, cell.m, row, matrix.bytes, tuple(cell.seconds), measured, roof, peak, step, cell.fault
            )
        )  # fmt: skip
    return tuple(results)
