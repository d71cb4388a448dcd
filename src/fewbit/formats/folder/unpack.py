"""Packed words to codes for the parts: by the compiled library, or by the numpy definitions of `packing` where it is absent."""

from __future__ import annotations

import numpy as np

from fewbit import codec
from fewbit.formats.folder.packing import from_order, sign_extend, signed, unpack_bits
from fewbit.schemes.arrays import Array


def unpack_codes(
    packed: Array, bits: int, count: int, sign: str = "none", order: tuple[int, ...] = ()
) -> Array:
    """[..., count] from the bit streams along the last axis, back from `order`, and with their sign: "none", "offset"
    (2^(bits-1) was added), "twos" (complement)."""
    if codec.available():
        return codec.unpack_bits(packed, bits, count, sign, _of_eight(order))
    codes = unpack_bits(packed, bits, count)
    return apply_sign(from_order(codes, order) if order else codes, bits, sign)


def unpack_across(words: Array, bits: int, count: int, order: tuple[int, ...] = ()) -> Array:
    """The same without a sign and with the axes changed: [count, rows] from words [rows, ...]."""
    fields = bits in (2, 4) or (bits == 8 and not order)  # all of an order lie in one word
    if codec.available() and fields and words.itemsize == 4 and count * bits == words.shape[1] * 32:
        return codec.unpack_fields(codec.transpose(words), bits, _of_eight(order))
    return transposed(unpack_codes(words, bits, count, order=order))


def _of_eight(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(base + at for base in range(0, 8, len(order)) for at in order) if order else ()


def apply_sign(codes: Array, bits: int, sign: str) -> Array:
    match sign:
        case "none":
            return codes
        case "offset":
            return signed(codes, bits)
        case "twos":
            return sign_extend(codes, bits)
    raise ValueError(f"sign {sign!r} is none of none, offset, twos")


def transposed(array: Array) -> Array:
    """A contiguous copy of the matrix with its axes changed."""
    return codec.transpose(array) if codec.available() else np.ascontiguousarray(array.T)


def place_tiles(runs: Array, order: Array, n: int, k: int) -> Array:
    """[across * n, down * k] from runs [down, across, n * k], code i of a run being element order[i] = row * k + column."""
    if codec.available():
        return codec.place_tiles(runs, order, n, k)
    down, across = runs.shape[:2]
    tiles = np.empty_like(runs)
    tiles[..., order] = runs
    return np.ascontiguousarray(tiles.reshape(down, across, n, k).transpose(1, 2, 0, 3)).reshape(
        across * n, down * k
    )
