"""Runs independent jobs on a few threads and stops at the first that fails.

A job here is short, so what surrounds it counts: while Python runs in one thread, all others wait. A pool's future takes a
tenth of a millisecond, a counter and a list two microseconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from threading import Thread

WAKE_S = 0.02  # how often the calling thread looks, so that it does not wake for each job


class _Run:
    """The jobs by number, as the threads take them. `next` of a count and `append` of a deque are one step of Python each."""

    def __init__(self, jobs: Sequence[Callable[[], None]]) -> None:
        self.jobs, self.numbers = jobs, count()
        self.done: deque[int] = deque()
        self.faults: deque[BaseException] = deque()
        self.stopped = False

    def work(self) -> None:
        try:
            while not self.stopped and (number := next(self.numbers)) < len(self.jobs):
                self.jobs[number]()
                self.done.append(number)
        except BaseException as fault:  # raised again in the calling thread
            self.faults.append(fault)
            self.stopped = True

    def taken(self) -> Iterator[int]:
        while self.done:
            yield self.done.popleft()


def each_done(jobs: Sequence[Callable[[], None]], threads: int) -> Iterator[int]:
    """The number of each job once it is done, given to the calling thread.

    The first error is raised here, and so is an interrupt; no further job is begun then, and those under way end before.
    """
    run = _Run(jobs)
    workers = [Thread(target=run.work, name=f"fewbit-load-{i}") for i in range(min(threads, len(jobs)))]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            while worker.is_alive():
                worker.join(WAKE_S)
                yield from run.taken()
        yield from run.taken()
    finally:
        run.stopped = True
        for worker in workers:
            worker.join()
    if run.faults:
        raise run.faults[0]
