"""Runs independent jobs on a few threads and stops at the first that fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed


def each_done(jobs: Sequence[Callable[[], None]], threads: int) -> Iterator[int]:
    """The number of each job once it is done, given to the calling thread.

    The first error is raised here, and so is an interrupt; no further job is begun then, and those under way end before.
    """
    with ThreadPoolExecutor(threads, "fewbit-load") as executor:
        futures = {executor.submit(job): number for number, job in enumerate(jobs)}
        try:
            for future in as_completed(futures):
                future.result()
                yield futures[future]
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
