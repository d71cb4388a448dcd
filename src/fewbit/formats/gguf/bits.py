"""Fields of a few bits in bytes and words of blocks, and back."""

from __future__ import annotations

import numpy as np

from fewbit.schemes.arrays import Array


def fields(packed: Array, bits: int) -> Array:
    """u16 [blocks, fields]: the fields of each byte, lowest first."""
    fields = np.stack([(packed >> shift) & ((1 << bits) - 1) for shift in range(0, 8, bits)], axis=-1)
    wide: Array = fields.reshape(len(packed), -1).astype(np.uint16)
    return wide


def join(fields: Array, bits: int) -> Array:
    per_byte = fields.reshape(len(fields), -1, 8 // bits).astype(np.uint8)
    joined = np.zeros(per_byte.shape[:2], np.uint8)
    for i in range(8 // bits):
        joined |= per_byte[..., i] << np.uint8(bits * i)
    return joined


def threes(words: Array) -> Array:
    """u16 [blocks, 4 * words]: the four lowest fields of three bits."""
    fields: Array = np.stack([(words >> shift) & 7 for shift in (0, 3, 6, 9)], axis=-1)
    return fields.reshape(len(words), -1)


def join_threes(fields: Array) -> Array:
    per_word = fields.astype(np.uint16).reshape(len(fields), -1, 4)
    words = np.zeros(per_word.shape[:2], np.uint16)
    for i in range(4):
        words |= per_word[..., i] << np.uint16(3 * i)
    return words


def unpack_nibbles(packed: Array, scale: Array) -> None:
    np.bitwise_and(packed, 15, out=scale[:, 0::2])
    np.right_shift(packed, 4, out=scale[:, 1::2])


def pack_nibbles(scale: Array) -> Array:
    packed: Array = scale[:, 0::2] | (scale[:, 1::2] << np.uint8(4))
    return packed


def as_words(raw: Array, element: type[np.unsignedinteger]) -> Array:
    words: Array = np.ascontiguousarray(raw).view(element)
    return words.reshape(len(raw), -1)


def as_bytes(words: Array) -> Array:
    raw: Array = np.ascontiguousarray(words).view(np.uint8)
    return raw
