"""How many worker threads to run and where to pin them.

One thread for each physical core that the process may use: the threads of a core share its vector and tile units. Under a
processor quota there are no more threads than the quota pays for, and they are not pinned: other containers on the same
machine would pin theirs to the same first cores. More threads than cores, when asked for, are pinned to the cores' further
processors: left to the scheduler, two of them share a processor while another idles, and every barrier waits. Slow cores of a hybrid processor are left out, since every step of a plan
waits for its slowest thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fewbit.platforms.known import PlatformError
from fewbit.platforms.linux.cgroup import Limits, read_limits
from fewbit.platforms.linux.read import format_cpus
from fewbit.platforms.linux.topology import Topology, read_topology


@dataclass(frozen=True, slots=True)
class ThreadPlan:
    """`cpus` gives the processor of each thread, or is empty when the threads are not pinned; `reason` says why so."""

    threads: int
    cpus: tuple[int, ...]
    nodes: tuple[int, ...]
    reason: str


def plan_threads(
    topology: Topology | None = None,
    limits: Limits | None = None,
    threads: int | None = None,
    cpus: tuple[int, ...] | None = None,
    root: Path = Path("/"),
) -> ThreadPlan:
    """`threads` and `cpus` are the wishes of FEWBIT_THREADS and FEWBIT_CPUS; they are granted or refused."""
    topology = read_topology(root) if topology is None else topology
    limits = read_limits(root) if limits is None else limits
    if cpus is not None:
        return _named(topology, threads, cpus)
    fast = [core for core in topology.cores if not core.efficient] or list(topology.cores)
    most = len(fast)
    reason = f"one for each of {most} {'performance' if most < len(topology.cores) else 'physical'} cores"
    pinned = True
    if limits.cpu_quota is not None and limits.cpu_quota < most:
        most, pinned = max(1, int(limits.cpu_quota)), False
        reason = f"the control group's quota of {limits.cpu_quota:g} processors"
    order = _order(topology)
    if threads is not None:
        pinned = pinned and threads <= len(order)
        most, reason = threads, "as asked"
    if not pinned:
        return ThreadPlan(most, (), topology.node_numbers, f"{reason}; not pinned")
    chosen = order[:most]
    nodes = tuple(sorted({node for _, node in chosen}))
    return ThreadPlan(most, tuple(cpu for cpu, _ in chosen), nodes, f"{reason}; pinned")


def _order(topology: Topology) -> list[tuple[int, int]]:
    """Every processor with its node: one of each fast core, one of each slow core, then the fast cores' further ones."""
    ranked = [
        (sibling, core.efficient, place, cpu, core.node)
        for place, core in enumerate(topology.cores)
        for sibling, cpu in enumerate(core.cpus)
    ]
    return [(cpu, node) for _, _, _, cpu, node in sorted(ranked)]


def _named(topology: Topology, threads: int | None, cpus: tuple[int, ...]) -> ThreadPlan:
    if outside := sorted(set(cpus) - set(topology.cpus)):
        raise PlatformError(
            f"FEWBIT_CPUS names {format_cpus(tuple(outside))}, which this process may not use; "
            f"its processors are {format_cpus(topology.cpus)}"
        )
    if threads is not None and threads > len(cpus):
        raise PlatformError(
            f"{threads} threads do not fit on the {len(cpus)} processors of FEWBIT_CPUS; name more, or ask for fewer"
        )
    chosen = cpus[:threads]
    node_of = {cpu: core.node for core in topology.cores for cpu in core.cpus}
    return ThreadPlan(
        len(chosen), chosen, tuple(sorted({node_of[cpu] for cpu in chosen})), "FEWBIT_CPUS; pinned"
    )
