"""Measured roofs of this machine: what no kernel can exceed. Runs the library's probes on the kernels' own pool, on random data,
under 5 s.

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
READ, FMA, DOT, BARRIER = "memory read", "f32 multiply-add", "int8 multiply-add", "barrier"
VECTOR_ISAS = ("avx512", "avx2", "scalar")
CHAINS = {"avx512": 12, "avx2": 6, "scalar": 6}  # kChains of probe/generic.h
PRODUCT_OPS = {"avx512_vnni": 12 * 64 * 2, "avx2": 6 * 32 * 2}  # of a round: kProducts of probe/int8.h
TILE_OPS = {"bf16": 16 * 16 * 32 * 2, "int8": 16 * 16 * 64 * 2}  # of one tile product
TILES_PER_ROUND = {"tiles": 4, "tiles_l1": 32}  # of probe/amx.cpp


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


def measure(provides: frozenset[str], probes: Probes | None = None) -> Iterator[Roof]:
    """The roofs of the features granted; the figures are those of all threads together."""
    probe, isa = probes or Probes(Pool()), next(isa for isa in VECTOR_ISAS if ISAS[isa].requires <= provides)
    on = f"{probe.pool.threads} threads"
    yield Roof(READ, probe.read(isa), "GB/s", f"{isa}, {on}, {probe.buffer_bytes >> 20} MiB")
    rate = probe.rate(f"probe_fma_{isa}", CHAINS[isa] * 32) / 1e9
    yield Roof(FMA, rate, "GFLOP/s", f"{isa}, {on}")
    dot = next((isa for isa in PRODUCT_OPS if ISAS[isa].requires <= provides), None)
    if dot:
        rate = probe.rate(f"probe_int8_{dot}", PRODUCT_OPS[dot]) / 1e9
        yield Roof(DOT, rate, "GOP/s", f"{dot}, {on}")
    if ISAS["amx"].requires <= provides:
        for kind, ops in TILE_OPS.items():
            for where, tiles in TILES_PER_ROUND.items():
                rate = probe.rate(f"probe_{where}_{kind}", tiles * ops) / 1e12
                how = "in registers" if where == "tiles" else "of 2 x 2 tiles, operands in L1"
                yield Roof(
                    f"amx {kind}{' from L1' if where == 'tiles_l1' else ''}",
                    rate,
                    "TFLOP/s" if kind == "bf16" else "TOP/s",
                    f"tile products {how}, {on}",
                )
    yield Roof(BARRIER, probe.barrier(), "µs", f"empty steps of a plan, {on}")


class Probes:
    """`least_bytes`: of what is read for the bandwidth, and to empty the caches."""

    def __init__(self, pool: Pool, topology: Topology | None = None, least_bytes: int = 0) -> None:
        self.pool, self.lib = pool, library.load()
        topology = topology or read_topology()
        cache = sum(cache.size_bytes * cache.count for cache in topology.caches if cache.level >= 2)
        # beyond the caches several times over, and never a burden
        self.buffer_bytes = (
            max(64 << 20, min(max(256 << 20, 4 * cache, least_bytes), 4 << 30, memory_available() // 4))
            & -4096
        )
        self.sink, self._data = allocate(64 * pool.threads), allocate(0)

    def read(self, isa: str) -> float:
        """GB/s."""
        seconds = min(self._read_once(isa) for _ in range(RUNS + 2))
        return self.buffer_bytes / seconds / 1e9

    def evict(self) -> None:
        """Read the whole buffer, so that no cache holds anything else."""
        self._read_once("scalar")

    def _read_once(self, isa: str) -> float:
        if not self._data.size:
            self._data = allocate(self.buffer_bytes)
            self._time("probe_fill", 1, self._data.ctypes.data)
        return self._time(f"probe_read_{isa}", 1, self._data.ctypes.data)

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
