"""Blocks of one to two bits: TQ1_0, TQ2_0 (256 elements) and Q1_0 (128), to parts and back.

    bytes   TQ1_0  qs[48] qh[4] d          TQ2_0  qs[64] d          Q1_0  d qs[16]          d: f16

TQ1_0 keeps five digits of base 3 in a byte, as the fraction v / 243 rounded up to 256ths, so that multiplying by 3 carries out
the next digit; qh holds four. TQ2_0 has room for a fourth value, so its codes are unsigned with the zero point 1.
A bit of Q1_0 is a sign: its codebook is -1, 1.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fewbit.formats.gguf.blocks_legacy import f16
from fewbit.schemes.arrays import Array

Parts = Mapping[str, Array]

_DIGIT_RUNS = ((0, 32, 5), (32, 16, 5), (48, 4, 4))  # of bytes: first, count, digits in each


def unpack_tq1_0(blocks: Array, parts: Parts) -> None:
    codes, at = parts["codes"].view(np.uint8), 0
    for first, count, digits in _DIGIT_RUNS:
        rest = blocks[:, first : first + count].copy()
        for _ in range(digits):
            codes[:, at : at + count] = ((rest.astype(np.uint16) * 3) >> 8) - np.uint16(1)
            rest *= np.uint8(3)
            at += count
    parts["scale"][:] = f16(blocks, 52)


def pack_tq1_0(parts: Parts, blocks: Array) -> None:
    """Digits have one byte that writers choose; others, which mean the same, are never written."""
    codes, at = parts["codes"], 0
    if codes.size and codes.min() < -1:
        raise ValueError("TQ1_0 holds the codes -1, 0 and 1 only")
    for first, count, digits in _DIGIT_RUNS:
        number = np.zeros((len(blocks), count), np.uint32)
        for digit in range(digits):
            number += (codes[:, at : at + count] + 1).astype(np.uint32) * np.uint32(3 ** (4 - digit))
            at += count
        blocks[:, first : first + count] = (number * 256 + 242) // 243
    blocks[:, 52:54] = parts["scale"].view(np.uint8)


def unpack_tq2_0(blocks: Array, parts: Parts) -> None:
    runs = parts["codes"].reshape(-1, 2, 4, 32)
    for run in range(4):
        runs[:, :, run] = (blocks[:, :64].reshape(-1, 2, 32) >> (2 * run)) & 3
    parts["scale"][:] = f16(blocks, 64)
    parts["zero_point"][:] = 1


def pack_tq2_0(parts: Parts, blocks: Array) -> None:
    if (parts["zero_point"] != 1).any():
        raise ValueError("TQ2_0 has the zero point 1 only")
    runs = parts["codes"].reshape(-1, 2, 4, 32)
    joined = runs[:, :, 0] | (runs[:, :, 1] << 2) | (runs[:, :, 2] << 4) | (runs[:, :, 3] << 6)
    blocks[:, :64] = joined.reshape(-1, 64)
    blocks[:, 64:66] = parts["scale"].view(np.uint8)


def unpack_q1_0(blocks: Array, parts: Parts) -> None:
    parts["scale"][:] = f16(blocks, 0)
    parts["codes"][:] = np.unpackbits(blocks[:, 2:18], axis=1, bitorder="little")


def pack_q1_0(parts: Parts, blocks: Array) -> None:
    blocks[:, 0:2] = parts["scale"].view(np.uint8)
    blocks[:, 2:18] = np.packbits(parts["codes"], axis=1, bitorder="little")
