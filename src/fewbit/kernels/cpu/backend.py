"""The cpu backend: buffers from the library's allocator, weights packed by its kernels, a plan run by one library call."""

from __future__ import annotations

from typing import Any

import numpy as np

from fewbit import layouts
from fewbit.kernels import storage
from fewbit.kernels.cpu import library
from fewbit.kernels.cpu.lower import Lowered, lower
from fewbit.kernels.cpu.memory import allocate
from fewbit.kernels.cpu.packer import PiecePacker
from fewbit.kernels.cpu.pool import Pool
from fewbit.kernels.ops.plan import Plan
from fewbit.kernels.selector import Selector
from fewbit.spec.buffer import Buffer
from fewbit.spec.cell import Platform
from fewbit.spec.dtype import DType
from fewbit.spec.layout import Layout
from fewbit.spec.refusal import FewbitError
from fewbit.spec.scheme import Scheme


class CpuBackend:
    name = "cpu"

    def __init__(self, platform: Platform, threads: int | None = None) -> None:
        self.library = library.load()
        self.pool = Pool(threads)
        self.threads = self.pool.threads
        self.selector = Selector(platform)
        self._workspace = allocate(0)

    def empty(self, shape: tuple[int, ...], dtype: DType) -> Buffer:
        return storage.wrap(allocate(storage.byte_count(shape, dtype)), shape, dtype)

    def upload(self, array: np.ndarray, dtype: DType) -> Buffer:
        buffer = self.empty(array.shape, dtype)
        storage.view(buffer)[...] = array
        return buffer

    def array(self, buffer: Buffer) -> np.ndarray:
        return storage.view(buffer)

    def layout(self, name: str, scheme: Scheme) -> Layout:
        return layouts.layout(name, scheme)

    def packed_bytes(self, layout: Layout, n: int, k: int) -> int:
        return layouts.packed_bytes(layout, n, k)

    def packer(self, layout: Layout, n: int, k: int) -> PiecePacker:
        return PiecePacker(self, layout, n, k)

    def claim_thread(self) -> None:
        self.pool.claim_thread()

    def compile(self, plan: Plan) -> CompiledPlan:
        """Workspaces of all plans share one piece of memory, since fb_run takes callers in turn."""
        lowered = lower(plan, self.library)
        if lowered.workspace_bytes > self._workspace.size:
            self._workspace = allocate(lowered.workspace_bytes)
        for struct, start in lowered.wants:
            struct.workspace = self._workspace.ctypes.data + start
        return CompiledPlan(self, lowered, self._workspace)


class CompiledPlan:
    """One fb_run per call; nothing else happens in Python."""

    def __init__(self, backend: CpuBackend, lowered: Lowered, workspace: np.ndarray) -> None:
        self._run, self._pool, self._steps = backend.library.fb_run, backend.pool.handle, lowered.steps
        self._count = len(lowered.steps)
        self._alive: tuple[Any, ...] = (backend, lowered, workspace)

    def run(self) -> None:
        if self._run(self._pool, self._steps, self._count):
            raise FewbitError(
                "the kernel library refused a plan of another ABI; build it again with `make setup`"
            )
