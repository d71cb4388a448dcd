"""Running plans leaves the calling thread where it was, unless it claims its place in the pool."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from fewbit.kernels.cpu.backend import CpuBackend
from fewbit.platforms.x86.detect import detect
from fewbit.schemes import SCHEMES
from fewbit.schemes.reference import quantize
from fewbit.spec.refusal import FewbitError


def test_packing_does_not_pin_the_thread_that_loads() -> None:
    before = os.sched_getaffinity(0)
    cpu = CpuBackend(detect())
    tensor = quantize(np.zeros((64, 32), np.float32), SCHEMES["i4g32"])
    cpu.packer(cpu.layout("n32k32", tensor.scheme), 64, 32).write(0, tensor)
    assert os.sched_getaffinity(0) == before
    assert CpuBackend(detect()).pool.plan == cpu.pool.plan


def test_a_thread_that_claims_its_place_is_pinned_alone() -> None:
    cpu, found = CpuBackend(detect()), []

    def run() -> None:
        cpu.claim_thread()
        found.append(os.sched_getaffinity(0))

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert found == [set(cpu.pool.plan.cpus[:1]) or os.sched_getaffinity(0)]
    assert len(os.sched_getaffinity(0)) >= len(found[0])


@pytest.mark.parametrize("threads", [0, -3])
def test_a_count_of_threads_below_one_is_refused_and_not_taken_for_the_default(threads: int) -> None:
    with pytest.raises(FewbitError, match=f"--threads {threads} is not possible; type --threads 1"):
        CpuBackend(detect(), threads)


def test_an_argument_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEWBIT_THREADS", "2")
    assert CpuBackend(detect(), 1).pool.threads == 1
    assert CpuBackend(detect()).pool.threads == 2
