"""Memory of the kernel library as numpy byte arrays: 64-byte aligned, zeroed, in huge pages when large."""

from __future__ import annotations

import ctypes
import weakref

import numpy as np

from fewbit.kernels.cpu import library
from fewbit.spec.refusal import FewbitError


def allocate(count: int) -> np.ndarray:
    """`count` bytes, given back when the array and every view of it are gone."""
    lib = library.load()
    address = lib.fb_alloc(max(count, 1))
    if not address:
        raise FewbitError(
            f"the machine has no memory for a buffer of {count} bytes; free some or take a smaller model"
        )
    memory = (ctypes.c_uint8 * max(count, 1)).from_address(address)
    weakref.finalize(memory, lib.fb_free, address)  # numpy keeps `memory` alive as the base of its views
    return np.frombuffer(memory, np.uint8)[:count]
