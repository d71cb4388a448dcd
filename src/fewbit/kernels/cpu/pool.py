"""The library's thread pool: one thread per physical core granted, pinned where the platform says so.

The caller of fb_run is the pool's first thread. It is not pinned unless it says so itself (`claim_thread`): the thread that
loads a model goes on to other work, and every thread that it starts would inherit its one CPU.
"""

from __future__ import annotations

import ctypes
import os
import weakref

from fewbit import env
from fewbit.kernels.cpu import library
from fewbit.platforms.linux.threads import plan_threads
from fewbit.spec.refusal import FewbitError


class Pool:
    """Threads come from the argument, else FEWBIT_THREADS and FEWBIT_CPUS, else the platform's plan."""

    def __init__(self, threads: int | None = None) -> None:
        if threads is not None and threads < 1:
            raise FewbitError(
                f"--threads {threads} is not possible; type --threads 1 or more, or leave it out for one per physical core"
            )
        lib = library.load()
        self.plan = plan_threads(
            threads=env.THREADS.get() if threads is None else threads, cpus=env.CPUS.get()
        )
        self.threads, cpus = self.plan.threads, self.plan.cpus
        pinned = (-1, *cpus[1:])
        self.handle = lib.fb_pool_create(
            self.threads, (ctypes.c_int32 * len(pinned))(*pinned) if cpus else None
        )
        if not self.handle:
            raise FewbitError(f"the machine gives no {self.threads} threads; set FEWBIT_THREADS to fewer")
        weakref.finalize(self, lib.fb_pool_destroy, self.handle)

    def claim_thread(self) -> None:
        """The calling thread will run plans and little else: it takes the first CPU of the pool."""
        if self.plan.cpus:
            os.sched_setaffinity(0, {self.plan.cpus[0]})
