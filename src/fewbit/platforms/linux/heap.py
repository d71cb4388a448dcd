"""The C library's heap while many threads allocate and free the same megabytes again and again.

Of itself glibc gives freed memory back to the kernel at about twice the size of the largest piece, and every page is then
faulted in again: on two threads that took as long as decoding.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3  # of mallopt
LARGEST = 32 << 20  # what glibc allows, and where its own adjustment ends, with twice that to trim at
NEVER = 1 << 30


@contextmanager
def keeping_freed_memory() -> Iterator[None]:
    """Freed memory stays with its thread until the end, and all of it goes back then. Nothing happens without glibc."""
    library = ctypes.CDLL(None)
    if not (hasattr(library, "mallopt") and hasattr(library, "malloc_trim")):
        yield
        return
    library.mallopt(MMAP_THRESHOLD, LARGEST)
    library.mallopt(TRIM_THRESHOLD, NEVER)
    try:
        yield
    finally:
        library.mallopt(TRIM_THRESHOLD, 2 * LARGEST)
        library.malloc_trim(ctypes.c_size_t(0))
