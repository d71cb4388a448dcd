"""The thread pool: barriers hold, plans follow each other quickly, and more threads than cores do not collapse it."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import threading
import time

import pytest

from fewbit.kernels.cpu import abi, library

NO_WORKSPACE = ctypes.cast(None, abi.WORKSPACE_BYTES)


@pytest.fixture
def make_pool():
    lib, made = library.load(), []

    def make(threads: int, cpus: list[int] | None = None) -> int:
        made.append(lib.fb_pool_create(threads, (ctypes.c_int32 * threads)(*cpus) if cpus else None))
        assert made[-1]
        return made[-1]

    yield make
    for pool in made:
        lib.fb_pool_destroy(pool)


def recorder(events: list[tuple[int, int, int]], phases: int) -> abi.Kernel:
    """A kernel that notes (step, phase, thread); `args` is the number of the step."""

    def run(args: int | None, phase: int, worker: ctypes._Pointer) -> None:
        events.append((args or 0, phase, worker.contents.thread))

    return abi.Kernel(abi.ABI, phases, NO_WORKSPACE, abi.RUN(run))


@pytest.mark.parametrize("threads", [1, 2, 3, 9, 17])  # groups of 8 count themselves in
def test_phases_and_steps_do_not_mix(make_pool, threads):
    events: list[tuple[int, int, int]] = []
    kernel = recorder(events, phases=3)
    plan = (abi.Step * 5)(*(abi.Step(ctypes.pointer(kernel), s, 0, 0) for s in range(5)))
    pool = make_pool(threads)
    for _ in range(20):
        events.clear()
        assert library.load().fb_run(pool, plan, 5) == 0
        assert [e[:2] for e in events] == [(s, p) for s in range(5) for p in range(3) for _ in range(threads)]
        assert sorted(e[2] for e in events[:threads]) == list(range(threads))


def test_an_overlapping_step_still_runs_and_the_plan_still_ends(make_pool):
    events: list[tuple[int, int, int]] = []
    kernel = recorder(events, phases=1)
    plan = (abi.Step * 3)(*(abi.Step(ctypes.pointer(kernel), s, 1, 0) for s in range(3)))
    pool = make_pool(3)
    for _ in range(50):
        events.clear()
        assert library.load().fb_run(pool, plan, 3) == 0
        assert sorted(events) == [(s, 0, t) for s in range(3) for t in range(3)]


def nothing_plan(count: int) -> ctypes.Array[abi.Step]:
    kernel = library.load().fb_find(b"nothing")
    return (abi.Step * count)(*([abi.Step(kernel, None, 0, 0)] * count))


def test_callers_take_turns(make_pool):
    lib, pool, plan = library.load(), make_pool(2), nothing_plan(20)
    callers = [
        threading.Thread(target=lambda: [lib.fb_run(pool, plan, 20) for _ in range(50)]) for _ in range(4)
    ]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join(60)
        assert not caller.is_alive()


def test_more_threads_than_cores_do_not_collapse(make_pool):
    """A barrier then costs a few sleeps per thread. Spinning without bound would cost time slices: seconds, here."""
    count = 200
    lib, plan = library.load(), nothing_plan(count)
    threads = 8 * len(os.sched_getaffinity(0))
    pool = make_pool(min(threads, 64))
    start = time.perf_counter()
    lib.fb_run(pool, plan, count)
    assert (time.perf_counter() - start) / count < 0.02


def test_a_pinned_caller_is_unpinned_when_the_pool_ends():
    lib, before = library.load(), os.sched_getaffinity(0)
    cpus = sorted(before)[:2] * (2 if len(before) == 1 else 1)
    pool = lib.fb_pool_create(2, (ctypes.c_int32 * 2)(*cpus[:2]))
    lib.fb_run(pool, nothing_plan(1), 1)
    assert os.sched_getaffinity(0) == {cpus[0]}
    lib.fb_pool_destroy(pool)
    assert os.sched_getaffinity(0) == before


def test_a_plan_of_another_abi_is_refused(make_pool):
    kernel = abi.Kernel(abi.ABI + 1, 1, NO_WORKSPACE, abi.RUN(lambda *_: None))
    assert (
        library.load().fb_run(make_pool(2), (abi.Step * 1)(abi.Step(ctypes.pointer(kernel), None, 0, 0)), 1)
        == -1
    )


def test_impossible_thread_counts():
    assert not library.load().fb_pool_create(0, None)
    assert not library.load().fb_pool_create(100_000, None)


def test_memory_is_aligned_zeroed_and_reusable():
    lib = library.load()
    for size in (0, 1, 63, 4096, (2 << 20) - 1, 2 << 20, 9 << 20):
        for _ in range(3):
            address = lib.fb_alloc(size)
            assert address % (2 << 20 if size >= 2 << 20 else 64) == 0
            memory = (ctypes.c_uint8 * size).from_address(address)
            assert not any(memory[:1]) and not any(memory[-1:])
            ctypes.memset(address, 0xFF, size)
            lib.fb_free(address)
    assert not lib.fb_alloc(-1)
    lib.fb_free(None)


@pytest.mark.slow
@pytest.mark.parametrize("sanitizer", ["thread", "address,undefined"])
def test_stress_under_a_sanitizer(sanitizer, root, tmp_path):
    if not shutil.which("cmake") or not shutil.which("ninja"):
        pytest.skip("cmake or ninja is missing")
    options = [f"-DFEWBIT_SANITIZE={sanitizer}", "-DFEWBIT_ISAS=scalar", "-DFEWBIT_KERNELS=none"]
    subprocess.run(["cmake", "-S", root, "-B", tmp_path, "-G", "Ninja", *options], check=True)
    subprocess.run(["cmake", "--build", tmp_path, "-j2", "--target", "pool_stress"], check=True)
    for threads in (2, 9):
        subprocess.run([tmp_path / "pool_stress", str(threads), "100"], check=True, timeout=120)
