"""Limits of the control groups that this process is in, versions 1 and 2, every ancestor included.

Inside a container the mount shows the container's group as its root while /proc/self/cgroup may still give the host's
path, so a path that is not there is looked up from its nearest existing ancestor.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fewbit.platforms.linux import read

UNLIMITED_BYTES = 1 << 60  # version 1 writes about 2^63 where there is no limit


@dataclass(frozen=True, slots=True)
class Limits:
    """`cpu_quota` in processors (1.5 = 150 ms of every 100 ms); None = no limit. `memory_free_bytes` under that limit."""

    cpu_quota: float | None = None
    cpus: frozenset[int] | None = None
    memory_limit_bytes: int | None = None
    memory_free_bytes: int | None = None
    versions: tuple[int, ...] = ()


def read_limits(root: Path = Path("/")) -> Limits:
    """The tightest of each kind over all groups from the process's own up to the mount."""
    quotas: list[float] = []
    cpusets: list[frozenset[int]] = []
    memory: list[tuple[int, int]] = []
    versions: set[int] = set()
    for version, controllers, folder in _groups(root):
        versions.add(version)
        if (version == 2 or "cpu" in controllers) and (quota := _quota(folder, version)):
            quotas.append(quota)
        if (version == 2 or "cpuset" in controllers) and (allowed := _cpuset(folder, version)):
            cpusets.append(allowed)
        if (version == 2 or "memory" in controllers) and (pair := _memory(folder, version)):
            memory.append(pair)
    return Limits(
        cpu_quota=min(quotas, default=None),
        cpus=frozenset.intersection(*cpusets) if cpusets else None,
        memory_limit_bytes=min((limit for limit, _ in memory), default=None),
        memory_free_bytes=min((limit - used for limit, used in memory), default=None),
        versions=tuple(sorted(versions)),
    )


def _groups(root: Path) -> Iterator[tuple[int, tuple[str, ...], Path]]:
    """(version, controllers, folder) of every group from the process's own up to each hierarchy's mount."""
    mounts = list(_mounts(root))
    for line in (read.text(root / "proc/self/cgroup") or "").splitlines():
        _, names, path = line.split(":", 2)
        controllers = tuple(filter(None, names.split(",")))
        for version, mounted, top, shown in mounts:
            if (version == 2) != (not controllers) or not set(controllers) <= set(mounted):
                continue
            base = root / top.lstrip("/")
            inner = path[len(shown) :] if shown != "/" and path.startswith(shown) else path
            folder = base / inner.lstrip("/")
            while folder != base and not folder.is_dir():
                folder = folder.parent
            while True:
                yield version, controllers, folder
                if folder == base:
                    break
                folder = folder.parent


def _mounts(root: Path) -> Iterator[tuple[int, tuple[str, ...], str, str]]:
    """(version, controllers, mount point, group shown as its root) of each control group mount."""
    for line in (read.text(root / "proc/self/mountinfo") or "").splitlines():
        head, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        shown, top = head.split()[3:5]
        if kind == "cgroup2":
            yield 2, (), top, shown
        elif kind == "cgroup":
            yield 1, tuple(options.split()[-1].split(",")), top, shown


def _quota(folder: Path, version: int) -> float | None:
    if version == 2:
        words = (read.text(folder / "cpu.max") or "max").split()
        return None if words[0] == "max" else int(words[0]) / int(words[1])
    quota, period = read.integer(folder / "cpu.cfs_quota_us"), read.integer(folder / "cpu.cfs_period_us")
    return quota / period if quota and period and quota > 0 else None


def _cpuset(folder: Path, version: int) -> frozenset[int]:
    names = ("cpuset.cpus.effective",) if version == 2 else ("cpuset.effective_cpus", "cpuset.cpus")
    return next((found for name in names if (found := read.cpus(folder / name))), frozenset())


def _memory(folder: Path, version: int) -> tuple[int, int] | None:
    """(limit, used); used leaves out file pages that the kernel drops on demand, such as those of a mapped checkpoint."""
    limit_name, used_name, droppable = (
        ("memory.max", "memory.current", "inactive_file")
        if version == 2
        else ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
    )
    limit = read.integer(folder / limit_name)
    if limit is None or limit >= UNLIMITED_BYTES:
        return None
    used = read.integer(folder / used_name) or 0
    return limit, max(0, used - read.fields(folder / "memory.stat").get(droppable, 0))
