"""Control groups, versions 1 and 2, with limits at any level, and the memory that is left under them."""

from __future__ import annotations

from pathlib import Path

from fewbit.platforms.linux.cgroup import Limits, read_limits
from fewbit.platforms.linux.memory import memory_available, read_memory
from tests.platforms.fake_machine import write

GIB = 1 << 30
V2_MOUNT = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate"
MEMINFO = f"MemTotal: {64 * GIB >> 10} kB\nMemFree: 1 kB\nMemAvailable: {60 * GIB >> 10} kB"


def v2(root: Path, path: str, files: dict[str, str]) -> Path:
    write(root, {"proc/self/cgroup": f"0::{path}", "proc/self/mountinfo": V2_MOUNT, "proc/meminfo": MEMINFO})
    return write(root, {f"sys/fs/cgroup/{name}": text for name, text in files.items()})


def test_no_control_groups(tmp_path: Path) -> None:
    write(tmp_path, {"proc/meminfo": MEMINFO})
    assert read_limits(tmp_path) == Limits()
    assert read_memory(tmp_path).bound == "machine"
    assert memory_available(tmp_path) == 60 * GIB


def test_version_2_takes_the_tightest_of_all_ancestors(tmp_path: Path) -> None:
    root = v2(
        tmp_path,
        "/pod/job",
        {
            "pod/cpu.max": "250000 100000",
            "pod/memory.max": str(8 * GIB),
            "pod/memory.current": str(3 * GIB),
            "pod/memory.stat": f"anon {GIB}\ninactive_file {GIB}",
            "pod/job/cpu.max": "max 100000",
            "pod/job/memory.max": "max",
            "pod/job/cpuset.cpus.effective": "4-7,20-23",
        },
    )
    limits = read_limits(root)
    assert limits.cpu_quota == 2.5
    assert limits.cpus == frozenset({4, 5, 6, 7, 20, 21, 22, 23})
    assert limits.memory_limit_bytes == 8 * GIB
    assert limits.memory_free_bytes == 6 * GIB  # 8 - (3 used - 1 of droppable file pages)
    assert limits.versions == (2,)
    assert memory_available(root) == 6 * GIB
    assert read_memory(root).bound == "control group"


def test_version_2_in_a_container_that_sees_its_group_as_the_root(tmp_path: Path) -> None:
    root = v2(
        tmp_path,
        "/kubepods/pod1/abc",
        {"memory.max": str(GIB), "memory.current": "0", "cpu.max": "50000 100000"},
    )
    assert read_limits(root).memory_limit_bytes == GIB
    assert read_limits(root).cpu_quota == 0.5


def test_version_1(tmp_path: Path) -> None:
    mounts = [
        "33 32 0:28 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct",
        "34 32 0:29 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
        "35 32 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset",
    ]
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "3:cpu,cpuacct:/docker/abc\n2:memory:/docker/abc\n1:cpuset:/",
            "proc/self/mountinfo": "\n".join(mounts),
            "proc/meminfo": MEMINFO,
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "300000",
            "sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": str(2 * GIB),
            "sys/fs/cgroup/memory/memory.usage_in_bytes": str(3 * GIB),
            "sys/fs/cgroup/cpuset/cpuset.effective_cpus": "0-1",
        },
    )
    limits = read_limits(root)
    assert limits == Limits(3.0, frozenset({0, 1}), 2 * GIB, -GIB, (1,))
    assert memory_available(root) == 0  # over the limit: nothing, not a negative number


def test_version_1_without_a_limit(tmp_path: Path) -> None:
    root = write(
        tmp_path,
        {
            "proc/self/cgroup": "2:memory:/",
            "proc/self/mountinfo": "34 32 0:29 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712",
        },
    )
    assert read_limits(root).memory_limit_bytes is None
