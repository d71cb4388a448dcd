"""Processors, caches and memory nodes from sysfs, restricted to what this process may run on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from fewbit.platforms.linux import read


@dataclass(frozen=True, slots=True)
class Core:
    """A physical core: the usable processor numbers of its threads, lowest first, and its package and memory node.

    `efficient` marks the slower cores of a hybrid processor.
    """

    cpus: tuple[int, ...]
    package: int = 0
    node: int = 0
    efficient: bool = False


@dataclass(frozen=True, slots=True)
class Cache:
    """`count` caches of this level and kind among the usable processors, each of `size_bytes`."""

    level: int
    kind: str
    size_bytes: int
    count: int


@dataclass(frozen=True, slots=True)
class Node:
    number: int
    cpus: tuple[int, ...]
    total_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Topology:
    """Usable cores in the order of their first processor; the nodes that they are on; all nodes of the machine."""

    cores: tuple[Core, ...]
    nodes: tuple[Node, ...]
    caches: tuple[Cache, ...]
    online: int

    @property
    def cpus(self) -> tuple[int, ...]:
        return tuple(sorted(cpu for core in self.cores for cpu in core.cpus))

    @property
    def node_numbers(self) -> tuple[int, ...]:
        """The union over the cores, not the node of the first."""
        return tuple(sorted({core.node for core in self.cores}))


def read_topology(root: Path = Path("/"), usable: frozenset[int] | None = None) -> Topology:
    """`usable` defaults to the affinity mask, in which the control group's cpuset is already applied by Linux."""
    usable = frozenset(os.sched_getaffinity(0)) if usable is None else usable
    system = root / "sys/devices/system"
    online = read.cpus(system / "cpu/online") or usable
    nodes = _nodes(system / "node", usable)
    node_of = {cpu: node.number for node in nodes for cpu in node.cpus}
    efficient = read.cpus(root / "sys/devices/cpu_atom/cpus")
    cores: dict[tuple[int, ...], Core] = {}
    for cpu in sorted(usable & online):
        folder = system / f"cpu/cpu{cpu}/topology"
        siblings = read.cpus(folder / "core_cpus_list") or read.cpus(folder / "thread_siblings_list") or {cpu}
        cpus = tuple(sorted(usable.intersection(siblings)))
        package = read.integer(folder / "physical_package_id") or 0
        cores.setdefault(cpus, Core(cpus, package, node_of.get(cpu, 0), cpu in efficient))
    return Topology(
        tuple(cores.values()), nodes, _caches(system / "cpu", sorted(usable & online)), len(online)
    )


def _nodes(folder: Path, usable: frozenset[int]) -> tuple[Node, ...]:
    nodes = []
    for number in sorted(read.cpus(folder / "online")):
        info = {}
        for line in (read.text(folder / f"node{number}/meminfo") or "").splitlines():
            _, _, name, value, *_ = line.split()
            info[name.rstrip(":")] = int(value) * 1024
        cpus = read.cpus(folder / f"node{number}/cpulist") & usable
        nodes.append(Node(number, tuple(sorted(cpus)), info.get("MemTotal", 0), info.get("MemFree", 0)))
    return tuple(nodes)


def _caches(folder: Path, cpus: list[int]) -> tuple[Cache, ...]:
    found: dict[tuple[int, str, int], set[str]] = {}
    for cpu in cpus:
        for index in sorted((folder / f"cpu{cpu}/cache").glob("index*")):
            level, kind = read.integer(index / "level") or 0, (read.text(index / "type") or "").lower()
            shared = read.text(index / "shared_cpu_list") or str(cpu)
            found.setdefault((level, kind, read.size(index / "size")), set()).add(shared)
    return tuple(Cache(*key, count=len(shared)) for key, shared in sorted(found.items()))
