"""Made-up machines: what the process may use, where its threads go, and which memory nodes they are on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from fewbit.platforms.known import PlatformError
from fewbit.platforms.linux.cgroup import Limits
from fewbit.platforms.linux.read import format_cpus, parse_cpus
from fewbit.platforms.linux.threads import plan_threads
from fewbit.platforms.linux.topology import Cache, Core, read_topology
from tests.platforms.fake_machine import machine

NO_LIMITS = Limits()


def test_siblings_of_a_core_are_one_core(tmp_path: Path) -> None:
    root = machine(tmp_path, cores=120, siblings=True)
    topology = read_topology(root, frozenset(range(240)))
    assert len(topology.cores) == 120
    assert topology.cores[0] == Core((0, 120))
    plan = plan_threads(topology, NO_LIMITS)
    assert (plan.threads, plan.cpus) == (120, tuple(range(120)))
    assert topology.caches[-1] == Cache(3, "unified", 105 << 20, 1)
    assert topology.caches[0] == Cache(1, "data", 48 << 10, 120)


def test_both_siblings_allowed_alone_are_still_one_thread(tmp_path: Path) -> None:
    topology = read_topology(machine(tmp_path, cores=120, siblings=True), frozenset({0, 120}))
    assert plan_threads(topology, NO_LIMITS).cpus == (0,)


def test_nodes_are_the_union_over_the_cores(tmp_path: Path) -> None:
    """Cores on three of six nodes: memory belongs on all three, not on the first one's."""
    topology = read_topology(machine(tmp_path, cores=192, nodes=6), frozenset(range(96)))
    plan = plan_threads(topology, NO_LIMITS)
    assert (plan.threads, plan.nodes) == (96, (0, 1, 2))
    assert topology.node_numbers == (0, 1, 2)
    assert len(topology.nodes) == 6 and topology.nodes[5].cpus == ()


def test_thirty_two_small_nodes(tmp_path: Path) -> None:
    topology = read_topology(machine(tmp_path, cores=64, nodes=32), frozenset(range(64)))
    plan = plan_threads(topology, NO_LIMITS)
    assert plan.nodes == tuple(range(32))
    assert [node.total_bytes for node in topology.nodes] == [32 << 30] * 32


def test_cpuset_with_a_hole(tmp_path: Path) -> None:
    root = machine(tmp_path, cores=16, nodes=2, siblings=True)  # siblings: 4 and 20, ... 7 and 23
    topology = read_topology(root, parse_cpus("4-7,20-23"))
    plan = plan_threads(topology, NO_LIMITS)
    assert (plan.cpus, plan.nodes) == ((4, 5, 6, 7), (0,))
    assert topology.cpus == (4, 5, 6, 7, 20, 21, 22, 23)


def test_more_threads_than_cores_take_the_cores_further_processors(tmp_path: Path) -> None:
    topology = read_topology(machine(tmp_path, cores=16, nodes=2, siblings=True), parse_cpus("4-7,20-23"))
    assert plan_threads(topology, NO_LIMITS, threads=6).cpus == (4, 5, 6, 7, 20, 21)
    assert plan_threads(topology, NO_LIMITS, threads=8).cpus == (4, 5, 6, 7, 20, 21, 22, 23)
    assert (
        plan_threads(topology, NO_LIMITS, threads=9).cpus == ()
    )  # more than processors: granted, not pinned


def test_slow_cores_of_a_hybrid_processor_are_left_out(tmp_path: Path) -> None:
    topology = read_topology(machine(tmp_path, cores=24, efficient=tuple(range(8, 24))), frozenset(range(24)))
    plan = plan_threads(topology, NO_LIMITS)
    assert plan.cpus == tuple(range(8))
    assert plan.reason == "one for each of 8 performance cores; pinned"


def test_a_process_on_slow_cores_only_uses_them(tmp_path: Path) -> None:
    topology = read_topology(machine(tmp_path, cores=4, efficient=(2, 3)), frozenset({2, 3}))
    assert plan_threads(topology, NO_LIMITS).cpus == (2, 3)


@pytest.mark.parametrize(("quota", "threads"), [(4.0, 4), (3.9, 3), (0.5, 1)])
def test_a_quota_bounds_the_threads_and_unpins_them(tmp_path: Path, quota: float, threads: int) -> None:
    topology = read_topology(machine(tmp_path, cores=64), frozenset(range(64)))
    plan = plan_threads(topology, Limits(cpu_quota=quota))
    assert (plan.threads, plan.cpus) == (threads, ())
    assert plan.reason == f"the control group's quota of {quota:g} processors; not pinned"


def test_a_quota_above_the_cores_changes_nothing(tmp_path: Path) -> None:
    topology = read_topology(machine(tmp_path, cores=4), frozenset(range(4)))
    assert plan_threads(topology, Limits(cpu_quota=6.0)).cpus == (0, 1, 2, 3)


def test_wishes_are_granted_or_refused(tmp_path: Path) -> None:
    topology = read_topology(machine(tmp_path, cores=8, nodes=2), frozenset(range(8)))
    assert plan_threads(topology, NO_LIMITS, threads=3).cpus == (0, 1, 2)
    assert plan_threads(topology, NO_LIMITS, threads=20).threads == 20  # more than cores: granted, not pinned
    assert plan_threads(topology, NO_LIMITS, threads=20).cpus == ()
    named = plan_threads(topology, NO_LIMITS, cpus=(6, 2))
    assert (named.cpus, named.nodes) == ((6, 2), (0, 1))
    with pytest.raises(PlatformError, match="FEWBIT_CPUS names 8-9, which this process may not use"):
        plan_threads(topology, NO_LIMITS, cpus=(7, 8, 9))
    with pytest.raises(PlatformError, match="3 threads do not fit on the 2 processors of FEWBIT_CPUS"):
        plan_threads(topology, NO_LIMITS, threads=3, cpus=(1, 2))


def test_the_affinity_mask_of_this_process_is_obeyed() -> None:
    cpu = min(os.sched_getaffinity(0))
    code = "from fewbit.platforms.linux.threads import plan_threads; print(plan_threads().cpus)"
    command = ["taskset", "-c", str(cpu), sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PYTHONPATH": "src"})
    assert done.stdout == f"({cpu},)\n", done.stderr


@pytest.mark.parametrize("text", ["0", "0-3", "0-3,8", "1,3,5-7"])
def test_cpu_lists_round_trip(text: str) -> None:
    assert format_cpus(parse_cpus(text)) == text
