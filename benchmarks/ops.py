"""Where a step's time goes: each op of a model's plan run by itself, summed by kernel and size.

Beside the plan run whole, the sum shows what barriers cost; an op alone pays the waking of the threads.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.assembly import Timed, assemble
from benchmarks.report import print_table, write_csv
from fewbit.kernels.backend import Runnable
from fewbit.kernels.cpu import abi
from fewbit.kernels.cpu.backend import CompiledPlan, CpuBackend
from fewbit.kernels.ops.plan import Plan, Step
from fewbit.platforms.fingerprint import fingerprint

Key = tuple[str, str]


class OpClock:
    """Stands in for a backend's `compile`; `seconds` has a list for each op of the plan that ran last."""

    def __init__(self, backend: CpuBackend) -> None:
        self.backend, self._compile = backend, backend.compile
        self.seconds: dict[Key, float] = {}
        self.counts: dict[Key, int] = {}
        self.whole = 0.0
        backend.compile = self.compile  # type: ignore[method-assign, assignment]

    def compile(self, plan: Plan) -> Runnable:
        compiled = self._compile(plan)
        return Apart(self, plan, compiled.runnable if isinstance(compiled, Timed) else compiled)


class Apart:
    def __init__(self, clock: OpClock, plan: Plan, compiled: CompiledPlan) -> None:
        self.clock, self.plan, self.compiled = clock, plan, compiled

    def run(self) -> None:
        """Whole, then op by op on the same inputs, then whole again: what follows sees what it should."""
        start = time.perf_counter()
        self.compiled.run()
        self.clock.whole = time.perf_counter() - start
        library, pool, steps = self.clock.backend.library, self.compiled._pool, self.compiled._steps
        seconds: dict[Key, float] = defaultdict(float)
        counts: dict[Key, int] = defaultdict(int)
        for index, step in enumerate(self.plan.steps):
            at = ctypes.cast(
                ctypes.addressof(steps) + index * ctypes.sizeof(abi.Step), ctypes.POINTER(abi.Step)
            )
            start = time.perf_counter()
            library.fb_run(pool, at, 1)
            seconds[key_of(step)] += time.perf_counter() - start
            counts[key_of(step)] += 1
        self.clock.seconds, self.clock.counts = dict(seconds), dict(counts)
        self.compiled.run()


def key_of(step: Step) -> Key:
    sizes = step.sizes
    shape = f"{sizes['n']}x{sizes['k']}" if "n" in sizes else ""
    return step.row.name, shape


def run(model: Path, threads: int, row_counts: list[int], rounds: int, activations: str) -> int:
    facts, rows = fingerprint(), []
    processors = os.sched_getaffinity(0)
    for count in row_counts:
        os.sched_setaffinity(0, processors)  # the pool of the count before has pinned this thread to one
        assembly = assemble(model, threads, activations)
        clock = OpClock(assembly.backend)
        wholes, parts = [], defaultdict(list)
        rng = np.random.default_rng(0)
        for request in range(rounds + 1):
            assembly.submit(request, rng.integers(5, 40_000, max(count, 8)).tolist(), 1 if count > 1 else 3)
            finished = 0
            while not finished:
                _, finished = assembly.turn()
            if request:
                wholes.append(clock.whole)
                for key, seconds in clock.seconds.items():
                    parts[key].append(seconds)
        total = median(wholes)
        for key, seconds in sorted(parts.items(), key=lambda item: -median(item[1])):
            rows.append(
                {
                    "rows": str(count), "kernel": key[0], "shape": key[1], "calls": str(clock.counts[key]),
                    "ms": f"{median(seconds) * 1e3:.3f}", "share": f"{median(seconds) / total:.1%}",
                }
            )  # fmt: skip
        rows.append(
            {
                "rows": str(count),
                "kernel": "the plan whole",
                "shape": "",
                "calls": "1",
                "ms": f"{total * 1e3:.3f}",
                "share": "",
            }
        )
    columns = list(rows[0])
    print_table(
        f"One step, {threads} threads; {facts['cpu']}", columns, [[row[c] for c in columns] for row in rows]
    )
    print(f"wrote {write_csv('ops', rows, facts)}")
    return 0
