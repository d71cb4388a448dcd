"""Superblocks of 256 elements: Q2_K .. Q6_K, to parts and back.

    bytes   Q2_K  scales[16] qs[64] d dmin                 Q4_K  d dmin scales[12] qs[128]
            Q3_K  hmask[32] qs[64] scales[12] d            Q5_K  d dmin scales[12] qh[32] qs[128]
            Q6_K  ql[128] qh[64] scales[16] d              d, dmin: f16

Codes lie in runs of 32 elements: run r takes the same bit positions of 32 consecutive bytes, so each run is one shift and
mask. `codes` is [blocks, 256]; `scale`, `offset` [blocks, 256/group]; `super_scale`, `super_offset` f16 [blocks, 1].
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fewbit.formats.gguf.blocks_legacy import f16
from fewbit.schemes.arrays import Array

Parts = Mapping[str, Array]


def unpack_q2_k(blocks: Array, parts: Parts) -> None:
    np.bitwise_and(blocks[:, :16], 15, out=parts["scale"])
    np.right_shift(blocks[:, :16], 4, out=parts["offset"])
    _unpack_pairs(blocks[:, 16:80], parts["codes"])
    parts["super_scale"][:] = f16(blocks, 80)
    parts["super_offset"][:] = f16(blocks, 82)


def pack_q2_k(parts: Parts, blocks: Array) -> None:
    blocks[:, :16] = parts["scale"] | (parts["offset"] << np.uint8(4))
    blocks[:, 16:80] = _pack_pairs(parts["codes"])
    blocks[:, 80:82] = parts["super_scale"].view(np.uint8)
    blocks[:, 82:84] = parts["super_offset"].view(np.uint8)


def unpack_q3_k(blocks: Array, parts: Parts) -> None:
    codes = parts["codes"].view(np.uint8)
    _unpack_pairs(blocks[:, 32:96], codes)
    runs = codes.reshape(-1, 8, 32)
    for run in range(8):  # bit `run` of hmask set: the code is pair - 0, clear: pair - 4
        runs[:, run] |= ((blocks[:, :32] >> run) & 1) << 2
    np.subtract(codes, 4, out=codes)
    low = np.concatenate([blocks[:, 96:104] & 15, blocks[:, 96:104] >> 4], axis=1)
    high = np.concatenate([(blocks[:, 104:108] >> shift) & 3 for shift in (0, 2, 4, 6)], axis=1)
    parts["scale"].view(np.uint8)[:] = (low | (high << 4)) - np.uint8(32)
    parts["super_scale"][:] = f16(blocks, 108)


def pack_q3_k(parts: Parts, blocks: Array) -> None:
    codes = parts["codes"].view(np.uint8) + np.uint8(4)
    high_bits = codes.reshape(-1, 8, 32) >> 2
    blocks[:, :32] = np.packbits(high_bits, axis=1, bitorder="little").reshape(-1, 32)
    blocks[:, 32:96] = _pack_pairs(codes & 3)
    scale = parts["scale"].view(np.uint8) + np.uint8(32)
    blocks[:, 96:104] = (scale[:, :8] & 15) | ((scale[:, 8:] & 15) << 4)
    blocks[:, 104:108] = _join([(scale[:, 4 * i : 4 * i + 4] >> 4) << (2 * i) for i in range(4)])
    blocks[:, 108:110] = parts["super_scale"].view(np.uint8)


def unpack_q4_k(blocks: Array, parts: Parts) -> None:
    _unpack_head(blocks, parts)
    _unpack_nibble_runs(blocks[:, 16:144], parts["codes"])


def pack_q4_k(parts: Parts, blocks: Array) -> None:
    _pack_head(parts, blocks)
    blocks[:, 16:144] = _pack_nibble_runs(parts["codes"])


def unpack_q5_k(blocks: Array, parts: Parts) -> None:
    _unpack_head(blocks, parts)
    _unpack_nibble_runs(blocks[:, 48:176], parts["codes"])
    runs = parts["codes"].reshape(-1, 8, 32)
    for run in range(8):
        runs[:, run] |= ((blocks[:, 16:48] >> run) & 1) << 4


def pack_q5_k(parts: Parts, blocks: Array) -> None:
    _pack_head(parts, blocks)
    fifth = parts["codes"].reshape(-1, 8, 32) >> 4
    blocks[:, 16:48] = np.packbits(fifth, axis=1, bitorder="little").reshape(-1, 32)
    blocks[:, 48:176] = _pack_nibble_runs(parts["codes"] & 15)


def unpack_q6_k(blocks: Array, parts: Parts) -> None:
    codes = parts["codes"].view(np.uint8)
    runs = codes.reshape(-1, 2, 4, 32)
    low = blocks[:, :128].reshape(-1, 2, 2, 32)
    high = blocks[:, 128:192].reshape(-1, 2, 32)
    np.bitwise_and(low, 15, out=runs[:, :, :2])
    np.right_shift(low, 4, out=runs[:, :, 2:])
    for run in range(4):
        runs[:, :, run] |= ((high >> (2 * run)) & 3) << 4
    np.subtract(codes, 32, out=codes)
    parts["scale"].view(np.uint8)[:] = blocks[:, 192:208]
    parts["super_scale"][:] = f16(blocks, 208)


def pack_q6_k(parts: Parts, blocks: Array) -> None:
    runs = (parts["codes"].view(np.uint8) + np.uint8(32)).reshape(-1, 2, 4, 32)
    blocks[:, :128] = ((runs[:, :, :2] & 15) | ((runs[:, :, 2:] & 15) << 4)).reshape(-1, 128)
    blocks[:, 128:192] = _join([(runs[:, :, i] >> 4) << (2 * i) for i in range(4)]).reshape(-1, 64)
    blocks[:, 192:208] = parts["scale"].view(np.uint8)
    blocks[:, 208:210] = parts["super_scale"].view(np.uint8)


def _unpack_head(blocks: Array, parts: Parts) -> None:
    """d, dmin and the twelve bytes of eight 6-bit scales and eight 6-bit offsets of Q4_K and Q5_K.

    Bytes 0-3 hold scales 0-3 and, in their two top bits, those of scales 4-7; bytes 4-7 the same of the offsets;
    bytes 8-11 the low nibbles of scales 4-7 and, in the high nibble, of offsets 4-7.
    """
    parts["super_scale"][:] = f16(blocks, 0)
    parts["super_offset"][:] = f16(blocks, 2)
    scale, offset, both = blocks[:, 4:8], blocks[:, 8:12], blocks[:, 12:16]
    parts["scale"][:, :4] = scale & 63
    parts["scale"][:, 4:] = (both & 15) | ((scale >> 2) & 48)
    parts["offset"][:, :4] = offset & 63
    parts["offset"][:, 4:] = (both >> 4) | ((offset >> 2) & 48)


def _pack_head(parts: Parts, blocks: Array) -> None:
    scale, offset = parts["scale"], parts["offset"]
    blocks[:, 0:2] = parts["super_scale"].view(np.uint8)
    blocks[:, 2:4] = parts["super_offset"].view(np.uint8)
    blocks[:, 4:8] = scale[:, :4] | ((scale[:, 4:] & 48) << 2)
    blocks[:, 8:12] = offset[:, :4] | ((offset[:, 4:] & 48) << 2)
    blocks[:, 12:16] = (scale[:, 4:] & 15) | ((offset[:, 4:] & 15) << 4)


def _unpack_nibble_runs(qs: Array, codes: Array) -> None:
    """Byte run r of 32 holds elements 64r .. 64r+31 in its low nibbles and the next 32 in its high nibbles."""
    runs = codes.reshape(-1, 4, 2, 32)
    np.bitwise_and(qs.reshape(-1, 4, 32), 15, out=runs[:, :, 0])
    np.right_shift(qs.reshape(-1, 4, 32), 4, out=runs[:, :, 1])


def _pack_nibble_runs(codes: Array) -> Array:
    runs = codes.reshape(-1, 4, 2, 32)
    packed: Array = (runs[:, :, 0] | (runs[:, :, 1] << 4)).reshape(-1, 128)
    return packed


def _unpack_pairs(qs: Array, codes: Array) -> None:
    """Two-bit fields: of each 32 bytes, shifts 0, 2, 4, 6 are four consecutive runs of 32 elements."""
    runs = codes.reshape(-1, 2, 4, 32)
    for run in range(4):
        np.right_shift(qs.reshape(-1, 2, 32), 2 * run, out=runs[:, :, run])
    np.bitwise_and(codes, 3, out=codes)


def _pack_pairs(codes: Array) -> Array:
    runs = codes.reshape(-1, 2, 4, 32)
    return _join([runs[:, :, i] << (2 * i) for i in range(4)]).reshape(-1, 64)


def _join(fields: list[Array]) -> Array:
    joined: Array = np.bitwise_or.reduce(fields)
    return joined
