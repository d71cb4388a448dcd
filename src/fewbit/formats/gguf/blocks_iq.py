"""Superblocks of 256 elements whose runs of 4 or 8 are rows of a grid: IQ1_S .. IQ3_S, to parts and back.

    bytes   IQ2_XXS  d (index[4] signs+scale:u32)[8]        IQ1_S  d index[32] qh:u16[8]
            IQ2_XS   d index+signs:u16[32] scales[8]        IQ1_M  index[32] qh[16] scales:u16[4]
            IQ2_S    d index[32] signs[32] qh[8] scales[8]
            IQ3_XXS  d index[64] (signs+scale:u32)[8]       IQ3_S  d index[64] qh[8] signs[32] scales[4]

d: f16. IQ1_M keeps its bits in the top quarters of the four scale words. Seven sign bits stand for eight: the number of minus
signs is even, and the eighth bit is what makes it so.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fewbit.formats.gguf.bits import (
    as_bytes,
    as_words,
    fields,
    join,
    join_threes,
    pack_nibbles,
    threes,
    unpack_nibbles,
)
from fewbit.formats.gguf.blocks_legacy import f16
from fewbit.schemes.arrays import Array

Parts = Mapping[str, Array]


def unpack_iq2_xxs(blocks: Array, parts: Parts) -> None:
    parts["super_scale"][:] = f16(blocks, 0)
    pairs = blocks[:, 2:66].reshape(-1, 8, 8)
    parts["index"][:] = pairs[..., :4].reshape(-1, 32)
    _unpack_sign_words(as_words(pairs[..., 4:], np.uint32), parts)


def pack_iq2_xxs(parts: Parts, blocks: Array) -> None:
    blocks[:, :2] = parts["super_scale"].view(np.uint8)
    pairs = np.empty((len(blocks), 8, 8), np.uint8)
    pairs[..., :4] = parts["index"].reshape(-1, 8, 4)
    pairs[..., 4:] = as_bytes(_sign_words(parts)).reshape(-1, 8, 4)
    blocks[:, 2:66] = pairs.reshape(-1, 64)


def unpack_iq2_xs(blocks: Array, parts: Parts) -> None:
    parts["super_scale"][:] = f16(blocks, 0)
    words = as_words(blocks[:, 2:66], np.uint16)
    parts["index"][:] = words & 511
    parts["signs"][:] = _eighth_bit((words >> 9).astype(np.uint8))
    unpack_nibbles(blocks[:, 66:74], parts["scale"])


def pack_iq2_xs(parts: Parts, blocks: Array) -> None:
    blocks[:, :2] = parts["super_scale"].view(np.uint8)
    blocks[:, 2:66] = as_bytes(
        parts["index"] | (_seven_bits(parts["signs"]).astype(np.uint16) << np.uint16(9))
    )
    blocks[:, 66:74] = pack_nibbles(parts["scale"])


def unpack_iq2_s(blocks: Array, parts: Parts) -> None:
    parts["super_scale"][:] = f16(blocks, 0)
    parts["index"][:] = blocks[:, 2:34] | (fields(blocks[:, 66:74], 2) << 8)
    parts["signs"][:] = blocks[:, 34:66]
    unpack_nibbles(blocks[:, 74:82], parts["scale"])


def pack_iq2_s(parts: Parts, blocks: Array) -> None:
    blocks[:, :2] = parts["super_scale"].view(np.uint8)
    blocks[:, 2:34] = parts["index"] & 255
    blocks[:, 34:66] = parts["signs"]
    blocks[:, 66:74] = join(parts["index"] >> 8, 2)
    blocks[:, 74:82] = pack_nibbles(parts["scale"])


def unpack_iq3_xxs(blocks: Array, parts: Parts) -> None:
    parts["super_scale"][:] = f16(blocks, 0)
    parts["index"][:] = blocks[:, 2:66]
    _unpack_sign_words(as_words(blocks[:, 66:98], np.uint32), parts)


def pack_iq3_xxs(parts: Parts, blocks: Array) -> None:
    blocks[:, :2] = parts["super_scale"].view(np.uint8)
    blocks[:, 2:66] = parts["index"]
    blocks[:, 66:98] = as_bytes(_sign_words(parts))


def unpack_iq3_s(blocks: Array, parts: Parts) -> None:
    parts["super_scale"][:] = f16(blocks, 0)
    parts["index"][:] = blocks[:, 2:66] | (fields(blocks[:, 66:74], 1) << 8)
    parts["signs"][:] = blocks[:, 74:106]
    unpack_nibbles(blocks[:, 106:110], parts["scale"])


def pack_iq3_s(parts: Parts, blocks: Array) -> None:
    blocks[:, :2] = parts["super_scale"].view(np.uint8)
    blocks[:, 2:66] = parts["index"] & 255
    blocks[:, 66:74] = join(parts["index"] >> 8, 1)
    blocks[:, 74:106] = parts["signs"]
    blocks[:, 106:110] = pack_nibbles(parts["scale"])


def unpack_iq1_s(blocks: Array, parts: Parts) -> None:
    parts["super_scale"][:] = f16(blocks, 0)
    words = as_words(blocks[:, 34:50], np.uint16)
    parts["index"][:] = blocks[:, 2:34] | (threes(words) << 8)
    parts["scale"][:] = (words >> 12) & 7
    parts["shift"][:] = words >> 15


def pack_iq1_s(parts: Parts, blocks: Array) -> None:
    blocks[:, :2] = parts["super_scale"].view(np.uint8)
    blocks[:, 2:34] = parts["index"] & 255
    words = join_threes(parts["index"] >> 8)
    words |= parts["scale"].astype(np.uint16) << np.uint16(12)
    words |= parts["shift"].astype(np.uint16) << np.uint16(15)
    blocks[:, 34:50] = as_bytes(words)


def unpack_iq1_m(blocks: Array, parts: Parts) -> None:
    nibbles = fields(blocks[:, 32:48], 4)
    parts["index"][:] = blocks[:, :32] | ((nibbles & 7) << 8)
    parts["shift"][:] = nibbles >> 3
    words = as_words(blocks[:, 48:56], np.uint16)
    parts["scale"][:] = threes(words)
    quarters = words >> 12
    d = quarters[:, 0] | (quarters[:, 1] << 4) | (quarters[:, 2] << 8) | (quarters[:, 3] << 12)
    parts["super_scale"].view(np.uint16)[:, 0] = d


def pack_iq1_m(parts: Parts, blocks: Array) -> None:
    blocks[:, :32] = parts["index"] & 255
    blocks[:, 32:48] = join((parts["index"] >> 8) | (parts["shift"].astype(np.uint16) << np.uint16(3)), 4)
    words = join_threes(parts["scale"])
    d = parts["super_scale"].view(np.uint16)
    for quarter in range(4):
        words[:, quarter] |= ((d[:, 0] >> np.uint16(4 * quarter)) & 15) << 12
    blocks[:, 48:56] = as_bytes(words)


def _unpack_sign_words(words: Array, parts: Parts) -> None:
    """u32 [blocks, 8]: four times seven sign bits, and the scale on top."""
    seven = np.stack([(words >> (7 * i)) & 127 for i in range(4)], axis=-1)
    parts["signs"][:] = _eighth_bit(seven.astype(np.uint8)).reshape(-1, 32)
    parts["scale"][:] = words >> 28


def _sign_words(parts: Parts) -> Array:
    seven = _seven_bits(parts["signs"]).astype(np.uint32).reshape(-1, 8, 4)
    words: Array = parts["scale"].astype(np.uint32) << np.uint32(28)
    for i in range(4):
        words |= seven[..., i] << np.uint32(7 * i)
    return words


def _eighth_bit(seven: Array) -> Array:
    signs: Array = seven | (_parity(seven) << np.uint8(7))
    return signs


def _seven_bits(signs: Array) -> Array:
    if _parity(signs).any():
        raise ValueError("this type holds an even number of minus signs in each run of 8 only")
    seven: Array = signs & 127
    return seven


def _parity(byte: Array) -> Array:
    for shift in (4, 2, 1):
        byte = byte ^ (byte >> shift)
    odd: Array = byte & 1
    return odd
