"""Bit streams: several codes per word, lowest bits first, along the last axis. Each `unpack` has its exact `pack`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import numpy as np

from fewbit.schemes.arrays import Array

AWQ_ORDER = (0, 4, 1, 5, 2, 6, 3, 7)
"""Column j of eight lies in nibble AWQ_ORDER[j] of its word."""


def unpack_bits(packed: Array, bits: int, count: int) -> Array:
    """uint8 [..., count] from integers of any width: one stream without gaps, so a code may straddle words."""
    raw = np.ascontiguousarray(packed).view(np.uint8)
    lead = raw.shape[:-1]
    if bits == 8:
        return np.ascontiguousarray(raw[..., :count])
    if bits in (1, 2, 4):
        codes: Array = _codes_of_bytes(bits)[raw].view(np.uint8)
        return np.ascontiguousarray(codes[..., :count])
    blocks = -(-raw.shape[-1] // bits)  # eight codes take `bits` bytes
    padded = np.zeros((*lead, blocks * bits), np.uint8)
    padded[..., : raw.shape[-1]] = raw
    octets = padded.reshape(*lead, blocks, bits)
    word = np.zeros((*lead, blocks), np.uint64)
    for i in range(bits):
        word |= octets[..., i].astype(np.uint64) << np.uint64(8 * i)
    out = np.empty((*lead, blocks, 8), np.uint8)
    for i in range(8):
        out[..., i] = (word >> np.uint64(bits * i)) & np.uint64((1 << bits) - 1)
    return np.ascontiguousarray(out.reshape(*lead, -1)[..., :count])


@cache
def _codes_of_bytes(bits: int) -> Array:
    """[256] of an unsigned type whose bytes are the codes of that byte, the low one first: one look-up for all of them."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    codes = (np.arange(256, dtype=np.uint8)[:, None] >> shifts) & np.uint8((1 << bits) - 1)
    table: Array = np.ascontiguousarray(codes).view(f"u{len(shifts)}").reshape(256)
    return table


def pack_bits(codes: Array, bits: int, word: type = np.uint32) -> Array:
    """Unsigned codes [..., count] as words [..., ceil(count * bits / word bits)]; the last one is filled with zeros."""
    lead, count = codes.shape[:-1], codes.shape[-1]
    width = np.dtype(word).itemsize
    blocks = -(-count // 8)
    padded = np.zeros((*lead, blocks * 8), np.uint64)
    padded[..., :count] = codes
    fields = padded.reshape(*lead, blocks, 8) << (np.arange(8, dtype=np.uint64) * np.uint64(bits))
    octets = np.bitwise_or.reduce(fields, axis=-1)[..., None] >> (
        np.arange(bits, dtype=np.uint64) * np.uint64(8)
    )
    raw = (octets & np.uint64(0xFF)).astype(np.uint8).reshape(*lead, -1)
    size = -(-count * bits // (8 * width)) * width
    out = np.zeros((*lead, size), np.uint8)
    out[..., : min(size, raw.shape[-1])] = raw[..., :size]
    words: Array = out.view(word)
    return words


def unpack_planes(words: Array, planes: tuple[int, ...], count: int) -> Array:
    """uint8 [..., count] from u32 [..., count / 32 * sum(planes)]: each 32 codes in bit planes, that of the low bits first."""
    bits = sum(planes)
    blocks = words.reshape(*words.shape[:-1], -1, bits)
    codes = np.zeros((*blocks.shape[:-1], 32), np.uint8)
    low = 0
    for width in planes:
        codes |= unpack_bits(blocks[..., low : low + width], width, 32) << np.uint8(low)
        low += width
    return np.ascontiguousarray(codes.reshape(*words.shape[:-1], -1)[..., :count])


def pack_planes(codes: Array, planes: tuple[int, ...]) -> Array:
    blocks = codes.reshape(*codes.shape[:-1], -1, 32)
    parts, low = [], 0
    for width in planes:
        parts.append(pack_bits((blocks >> low) & ((1 << width) - 1), width))
        low += width
    words: Array = np.concatenate(parts, axis=-1).reshape(*codes.shape[:-1], -1)
    return words


def from_order(codes: Array, order: tuple[int, ...]) -> Array:
    """Unpacked codes whose eights lie in `order` (column j at position order[j]), back in theirs."""
    eights = codes.reshape(*codes.shape[:-1], -1, len(order))
    out: Array = eights[..., list(order)].reshape(codes.shape)
    return out


def to_order(codes: Array, order: tuple[int, ...]) -> Array:
    eights = codes.reshape(*codes.shape[:-1], -1, len(order))
    out: Array = np.empty_like(eights)
    out[..., list(order)] = eights
    return out.reshape(codes.shape)


def add_to_words(words: Array, bits: int, step: int) -> Array:
    """`step` added to every field by one addition to the whole 32-bit word: carries run into the next field, as the writers
    of GPTQ's first version let them. Only for bits that divide 32."""
    ones = sum(1 << at for at in range(0, 32, bits))
    out: Array = (words.view(np.uint32) + np.uint32(step * ones % (1 << 32))).view(words.dtype)
    return out


def signed(codes: Array, bits: int) -> Array:
    """Unsigned codes stored with 2^(bits-1) added, as int8."""
    out: Array = (codes - np.uint8(1 << (bits - 1))).view(np.int8)
    return out


def sign_extend(codes: Array, bits: int) -> Array:
    """Two's complement codes of `bits` bits as int8."""
    shift = 8 - bits
    out: Array = (codes << np.uint8(shift)).view(np.int8) >> shift
    return out


def laps(start: int, stop: int, count: int) -> Iterator[tuple[int, int, int]]:
    """Positions [start, stop) on a circle of `count`, as (lap, from, to) piece by piece."""
    while start < stop:
        lap, at = divmod(start, count)
        end = min(stop - lap * count, count)
        yield lap, at, end
        start = lap * count + end
