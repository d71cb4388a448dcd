"""The library's thread pool: one thread per physical core granted, pinned where the platform says so."""

from __future__ import annotations

import ctypes
import weakref

from fewbit import env
from fewbit.kernels.cpu import library
from fewbit.platforms.linux.threads import plan_threads
from fewbit.spec.refusal import FewbitError


class Pool:
    """Threads come from the argument, else FEWBIT_THREADS and FEWBIT_CPUS, else the platform's plan."""

    def __init__(self, threads: int | None = None) -> None:
        lib = library.load()
        self.plan = plan_threads(threads=threads or env.THREADS.get(), cpus=env.CPUS.get())
        self.threads, cpus = self.plan.threads, self.plan.cpus
        self.handle = lib.fb_pool_create(self.threads, (ctypes.c_int32 * len(cpus))(*cpus) if cpus else None)
        if not self.handle:
            raise FewbitError(f"the machine gives no {self.threads} threads; set FEWBIT_THREADS to fewer")
        weakref.finalize(self, lib.fb_pool_destroy, self.handle)
