"""What lowering decides by itself: which steps need no barrier, and which may share a workspace."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from fewbit.kernels.cpu import abi, lower
from fewbit.kernels.cpu.backend import CpuBackend
from fewbit.kernels.ops.plan import Plan, Step
from fewbit.platforms.x86.detect import detect
from fewbit.spec.dtype import F32, I32

WORKSPACE = 100  # bytes a row, so that rounding up to 64 shows


@pytest.fixture(scope="module")
def backend() -> CpuBackend:
    return CpuBackend(detect())


@pytest.fixture
def phases(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Every kernel becomes one with a workspace of 100 bytes a row and so many phases."""
    count = [1]
    bytes_of = abi.WORKSPACE_BYTES(lambda args, rows: WORKSPACE * rows)
    made = []

    def find(row: object, library: object) -> ctypes._Pointer:  # type: ignore[type-arg]
        made.append(abi.Kernel(abi.ABI, count[0], bytes_of, abi.RUN(lambda *_: None)))
        return ctypes.pointer(made[-1])

    monkeypatch.setattr(lower, "find", find)
    yield count


def gather(backend: CpuBackend, overlap: bool = False) -> Step:
    args = {"x": backend.empty((4, 8), F32), "index": backend.empty((2,), I32)}
    args |= {"y": backend.empty((2, 8), F32), "rows": backend.empty((1,), I32)}
    row = backend.selector.choose("gather_rows").row_for(1)
    return Step("gather_rows", row, args, {"rows_all": 4, "dim": 8, "rows_max": 2}, overlap)


@pytest.mark.parametrize(
    ("overlaps", "count", "starts", "flags"),
    [
        ((False, False, False), 1, [0, 0, 0], [0, 0, 0]),  # one after the other: all share
        ((True, True, False), 1, [0, 256, 512], [1, 1, 0]),  # side by side: none shares
        ((True, False, True), 1, [0, 256, 0], [1, 0, 1]),
        ((True, True, False), 2, [0, 0, 0], [0, 0, 0]),  # phases need barriers of their own
    ],
)
def test_steps_side_by_side_have_workspaces_of_their_own(
    backend: CpuBackend,
    phases: list[int],
    overlaps: tuple[bool, ...],
    count: int,
    starts: list[int],
    flags: list[int],
) -> None:
    phases[0] = count
    lowered = lower.lower(Plan(tuple(gather(backend, overlap) for overlap in overlaps)), backend.library)
    assert [start for _, start in lowered.wants] == starts
    assert [step.overlap for step in lowered.steps] == flags
    assert lowered.workspace_bytes == max(starts) + 256


def test_a_plan_keeps_its_workspace_when_a_larger_one_comes(backend: CpuBackend, phases: list[int]) -> None:
    small = backend.compile(Plan((gather(backend),)))
    held = weakref.ref(backend._workspace)
    step = gather(backend)
    large = backend.compile(Plan((replace(step, sizes={**step.sizes, "rows_max": 4096}),)))
    gc.collect()
    assert backend._workspace.size >= 4096 * WORKSPACE
    assert held() is not None and held() is not backend._workspace
    assert np.shares_memory(held(), small._alive[-1]) and large._alive[-1] is backend._workspace
