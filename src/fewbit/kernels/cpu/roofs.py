"""Measured roofs of this machine: what no kernel can exceed. Runs the library's probes on the kernels' own pool, under 5 s.

Each figure is the best of a few runs of about a tenth of a second, since disturbances only ever slow a run down.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterator
from dataclasses import dataclass

from fewbit.kernels.cpu import abi, library
from fewbit.kernels.cpu.memory import allocate
from fewbit.kernels.cpu.pool import Pool
from fewbit.platforms.linux.memory import memory_available
from fewbit.platforms.linux.topology import Topology, read_topology
from fewbit.spec.features import ISAS

RUNS, SECONDS = 3, 0.1
BARRIERS = 2000
VECTOR_ISAS = ("avx512", "avx2", "scalar")
CHAINS = {"avx512": 12, "avx2": 6, "scalar": 6}  # kChains of probe/generic.h
TILE_OPS = {"bf16": 16 * 16 * 32 * 2, "int8": 16 * 16 * 64 * 2}  # of one tile product
TILES_PER_ROUND = 4


class ProbeArgs(ctypes.Structure):
    """fb_probe_args of probe/probe.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("bytes", ctypes.c_int64),
        ("repeats", ctypes.c_int64),
        ("sink", ctypes.c_void_p),
    )


@dataclass(frozen=True, slots=True)
class Roof:
    """`value` in `unit`; `how` says what was run, on how many threads."""

    name: str
    value: float
    unit: str
    how: str


def measure(provides: frozenset[str]) -> Iterator[Roof]:
    """The roofs of the features granted; the figures are those of all threads together."""
    probe, isa = Probes(Pool()), next(isa for isa in VECTOR_ISAS if ISAS[isa].requires <= provides)
    on = f"{probe.pool.threads} threads"
    yield Roof("memory read", probe.read(isa), "GB/s", f"{isa}, {on}, {probe.buffer_bytes >> 20} MiB")
    yield Roof(
        "f32 multiply-add", probe.rate(f"probe_fma_{isa}", CHAINS[isa] * 32) / 1e9, "GFLOP/s", f"{isa}, {on}"
    )
    if ISAS["amx"].requires <= provides:
        for kind, ops in TILE_OPS.items():
            rate = probe.rate(f"probe_tiles_{kind}", TILES_PER_ROUND * ops) / 1e12
            yield Roof(
                f"amx {kind}",
                rate,
                "TFLOP/s" if kind == "bf16" else "TOP/s",
                f"tile products in registers, {on}",
            )
    yield Roof("barrier", probe.barrier(), "µs", f"empty steps of a plan, {on}")


class Probes:
    def __init__(self, pool: Pool, topology: Topology | None = None) -> None:
        self.pool, self.lib = pool, library.load()
        topology = topology or read_topology()
        cache = sum(cache.size_bytes * cache.count for cache in topology.caches if cache.level >= 2)
        # beyond the caches several times over, and never a burden
        self.buffer_bytes = (
            max(64 << 20, min(max(256 << 20, 4 * cache), 4 << 30, memory_available() // 4)) & -4096
        )
        self.sink = allocate(64 * pool.threads)

    def read(self, isa: str) -> float:
        """GB/s."""
        data = allocate(self.buffer_bytes)
        self._time("probe_fill", 1, data.ctypes.data)
        seconds = min(self._time(f"probe_read_{isa}", 1, data.ctypes.data) for _ in range(RUNS + 2))
        return self.buffer_bytes / seconds / 1e9

    def rate(self, name: str, ops_per_round: int) -> float:
        """Operations per second of all threads. Rounds are doubled until a run lasts long enough."""
        rounds = 1 << 12
        while (seconds := self._time(name, rounds)) < SECONDS / 4:
            rounds *= 2
        rounds = int(rounds * SECONDS / seconds) + 1
        best = min(self._time(name, rounds) for _ in range(RUNS))
        return ops_per_round * rounds * self.pool.threads / best

    def barrier(self) -> float:
        """Microseconds between two steps that do nothing."""
        kernel = self.lib.fb_find(b"nothing")
        steps = (abi.Step * BARRIERS)(*(abi.Step(kernel, 0, 0, 0) for _ in range(BARRIERS)))
        return min(self._run(steps, BARRIERS) for _ in range(RUNS)) / BARRIERS * 1e6

    def _time(self, name: str, repeats: int, data: int = 0) -> float:
        kernel = self.lib.fb_find(name.encode())
        if not kernel:
            raise library.LibraryError(f"the kernel library has no {name}; build it again with `make setup`")
        args = ProbeArgs(data, self.buffer_bytes if data else 0, repeats, self.sink.ctypes.data)
        return self._run((abi.Step * 1)(abi.Step(kernel, ctypes.addressof(args), 0, 0)), 1)

    def _run(self, steps: ctypes.Array[abi.Step], count: int) -> float:
        start = time.perf_counter()
        self.lib.fb_run(self.pool.handle, steps, count)
        return time.perf_counter() - start
