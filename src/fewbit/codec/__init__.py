"""Decoding in the compiled library, called by ctypes with numpy arrays, so that other threads run meanwhile.

The numpy code beside each caller defines what these functions do and is what they are tested against. It also serves where
the library was not built, so that a checkpoint can be opened and inspected without: `available` says which it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from ctypes import c_int32, c_int64, c_void_p
from functools import cache
from typing import Any

import numpy as np

from fewbit.address import address
from fewbit.library_path import LibraryError, find_library

Array = np.ndarray[Any, np.dtype[Any]]

FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "fb_unpack_bits": (None, [c_void_p, c_int64, c_int64, c_int32, c_int32, c_void_p, c_int64, c_void_p]),
    "fb_transpose": (None, [c_void_p, c_int64, c_int64, c_int32, c_void_p]),
    "fb_place_tiles": (None, [c_void_p, c_int64, c_int64, c_int64, c_int64, c_void_p, c_void_p]),
    "fb_unpack_fields": (None, [c_void_p, c_int64, c_int64, c_int32, c_void_p, c_void_p]),
    "fb_copy_columns": (c_int64, [c_void_p, c_int64, c_int64, c_int64, c_void_p]),
    "fb_unpack_blocks": (c_int32, [c_int32, c_void_p, c_int64, *[c_void_p] * 5]),
}
SIGNS = {"none": 0, "offset": 1, "twos": 2}
BLOCK_TYPES = frozenset({2, 3, 6, 7, 8, 10, 11, 12, 13, 14, 20, 23, 39, 40})
"""GGML type ids that `unpack_blocks` takes."""


@cache
def _library() -> ctypes.CDLL | None:
    path = find_library()
    if path is None:
        return None
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return None  # whoever needs its kernels is told why
    for name, (result, arguments) in FUNCTIONS.items():
        function = getattr(library, name, None)
        if function is None:
            raise LibraryError(
                f"{path} has no function {name}, so it is of another version; build it again with `make setup`"
            )
        function.restype, function.argtypes = result, arguments
    return library


def available() -> bool:
    return _library() is not None


def _native() -> ctypes.CDLL:
    library = _library()
    assert library is not None, "called without asking `available`"
    return library


def unpack_bits(
    packed: Array, bits: int, count: int, sign: str = "none", order: tuple[int, ...] = ()
) -> Array:
    """uint8 or (with a sign) int8 [..., count] of the bit streams along the last axis; `order` of each eight as in from_order."""
    packed = np.ascontiguousarray(packed)
    lead, row_bytes = packed.shape[:-1], packed.shape[-1] * packed.itemsize
    if not 1 <= bits <= 8 or count * bits > row_bytes * 8 or (order and (count % 8 or len(order) != 8)):
        raise ValueError(f"{count} codes of {bits} bits in {row_bytes} bytes, order {order}")
    out: Array = np.empty((*lead, count), np.uint8 if sign == "none" else np.int8)
    rows = out.size // count if count else 0
    _native().fb_unpack_bits(
        address(packed), rows, row_bytes, bits, SIGNS[sign], bytes(order) or None, count, address(out)
    )
    return out


def transpose(array: Array) -> Array:
    """A contiguous copy of array.T, of two dimensions and elements of 1, 2, 4 or 8 bytes."""
    if array.ndim != 2 or array.itemsize not in (1, 2, 4, 8):
        raise ValueError(f"an array {array.dtype} {array.shape} is not transposed here")
    array = np.ascontiguousarray(array)
    out: Array = np.empty(array.shape[::-1], array.dtype)
    _native().fb_transpose(address(array), *array.shape, array.itemsize, address(out))
    return out


def place_tiles(runs: Array, order: Array, n: int, k: int) -> Array:
    """[across * n, down * k] bytes from runs [down, across, n * k], code i of a run being element order[i] = row * k + column."""
    down, across = runs.shape[:2]
    if (
        runs.itemsize != 1
        or runs.shape[2] != n * k
        or order.shape != (n * k,)
        or n * k > 4096
        or not 0 <= order.min() <= order.max() < n * k
    ):
        raise ValueError(
            f"runs of {runs.shape[2]} codes in the order of {order.shape} are no tiles of {n} x {k}"
        )
    runs, order = np.ascontiguousarray(runs), np.ascontiguousarray(order, np.int32)
    out: Array = np.empty((across * n, down * k), runs.dtype)
    _native().fb_place_tiles(address(runs), down, across, n, k, address(order), address(out))
    return out


def unpack_fields(words: Array, bits: int, order: tuple[int, ...] = ()) -> Array:
    """uint8 [32 / bits * words, count] from words [words, count]: each word's fields of 2, 4 or 8 bits one below the other, in
    `order` (of each eight)."""
    words = np.ascontiguousarray(words)
    if (
        bits not in (2, 4, 8)
        or words.ndim != 2
        or words.itemsize != 4
        or (order and (bits == 8 or len(order) != 8))
    ):
        raise ValueError(f"fields of {bits} bits in {words.dtype} {words.shape}, order {order}")
    rows, count = words.shape
    out: Array = np.empty((rows * 32 // bits, count), np.uint8)
    _native().fb_unpack_fields(address(words), rows, count, bits, bytes(order) or None, address(out))
    return out


def copy_columns(mapped: Array, offset: int, stride: int, out: Array) -> bool:
    """Fill the rows of `out`, uint8 [count, width], from a mapped file; False when the file ended before the last."""
    count, width = out.shape
    if offset < 0 or count < 1 or offset + (count - 1) * stride + width > mapped.size:
        raise ValueError(
            f"{count} rows of {width} bytes from {offset} on lie outside the {mapped.size} of the file"
        )
    done = _native().fb_copy_columns(address(mapped) + offset, width, stride, count, address(out))
    return bool(done == count)


def unpack_blocks(kind: int, blocks: Array, parts: Mapping[str, Array]) -> None:
    """Fill contiguous `parts` from uint8 [blocks, block bytes] of a type in BLOCK_TYPES."""
    blocks = np.ascontiguousarray(blocks)
    roles = ("codes", "scale", "offset", "super_scale", "super_offset")
    addresses = [address(parts[role]) if role in parts else None for role in roles]
    if _native().fb_unpack_blocks(kind, address(blocks), len(blocks), *addresses):
        raise ValueError(f"GGML type {kind} is not decoded here")
