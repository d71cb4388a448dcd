"""Blocks of 32 elements: Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q8_1, to parts and back.

    bytes   Q4_0  d qs[16]           Q4_1  d m qs[16]        d, m: f16
            Q5_0  d qh[4] qs[16]     Q5_1  d m qh[4] qs[16]  Q8_0  d qs[32]
            Q8_1  d s qs[32]; s f16 is d times the sum of the codes, for kernels, and says nothing of the weights

Element i < 16 lies in the low nibble of qs[i], element i + 16 in its high nibble; bit i of qh is the fifth bit of element i.
Signed codes are stored with a bias (8, 16). `codes` is uint8 or int8 [blocks, 32]; `scale`, `offset` f16 [blocks, 1].
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fewbit.schemes.arrays import Array

Parts = Mapping[str, Array]


def unpack_q4_0(blocks: Array, parts: Parts) -> None:
    codes = parts["codes"].view(np.uint8)
    parts["scale"][:] = f16(blocks, 0)
    _unpack_nibbles(blocks[:, 2:18], codes)
    np.subtract(codes, 8, out=codes)


def pack_q4_0(parts: Parts, blocks: Array) -> None:
    blocks[:, 0:2] = parts["scale"].view(np.uint8)
    blocks[:, 2:18] = _pack_nibbles(parts["codes"].view(np.uint8) + np.uint8(8))


def unpack_q4_1(blocks: Array, parts: Parts) -> None:
    parts["scale"][:] = f16(blocks, 0)
    parts["offset"][:] = f16(blocks, 2)
    _unpack_nibbles(blocks[:, 4:20], parts["codes"])


def pack_q4_1(parts: Parts, blocks: Array) -> None:
    blocks[:, 0:2] = parts["scale"].view(np.uint8)
    blocks[:, 2:4] = parts["offset"].view(np.uint8)
    blocks[:, 4:20] = _pack_nibbles(parts["codes"])


def unpack_q5_0(blocks: Array, parts: Parts) -> None:
    codes = parts["codes"].view(np.uint8)
    parts["scale"][:] = f16(blocks, 0)
    _unpack_nibbles(blocks[:, 6:22], codes)
    codes |= _unpack_fifth_bits(blocks[:, 2:6])
    np.subtract(codes, 16, out=codes)


def pack_q5_0(parts: Parts, blocks: Array) -> None:
    codes = parts["codes"].view(np.uint8) + np.uint8(16)
    blocks[:, 0:2] = parts["scale"].view(np.uint8)
    blocks[:, 2:6] = np.packbits(codes >> 4, axis=1, bitorder="little")
    blocks[:, 6:22] = _pack_nibbles(codes & 15)


def unpack_q5_1(blocks: Array, parts: Parts) -> None:
    parts["scale"][:] = f16(blocks, 0)
    parts["offset"][:] = f16(blocks, 2)
    _unpack_nibbles(blocks[:, 8:24], parts["codes"])
    np.bitwise_or(parts["codes"], _unpack_fifth_bits(blocks[:, 4:8]), out=parts["codes"])


def pack_q5_1(parts: Parts, blocks: Array) -> None:
    codes = parts["codes"]
    blocks[:, 0:2] = parts["scale"].view(np.uint8)
    blocks[:, 2:4] = parts["offset"].view(np.uint8)
    blocks[:, 4:8] = np.packbits(codes >> 4, axis=1, bitorder="little")
    blocks[:, 8:24] = _pack_nibbles(codes & 15)


def unpack_q8_0(blocks: Array, parts: Parts) -> None:
    parts["scale"][:] = f16(blocks, 0)
    parts["codes"].view(np.uint8)[:] = blocks[:, 2:34]


def pack_q8_0(parts: Parts, blocks: Array) -> None:
    blocks[:, 0:2] = parts["scale"].view(np.uint8)
    blocks[:, 2:34] = parts["codes"].view(np.uint8)


def unpack_q8_1(blocks: Array, parts: Parts) -> None:
    parts["scale"][:] = f16(blocks, 0)
    parts["codes"].view(np.uint8)[:] = blocks[:, 4:36]


def pack_q8_1(parts: Parts, blocks: Array) -> None:
    sums = parts["codes"].sum(axis=1, dtype=np.int32, keepdims=True)
    with np.errstate(over="ignore"):  # a sum beyond f16 is infinite there, too
        products = (parts["scale"].astype(np.float32) * sums).astype(np.float16)
    blocks[:, 0:2] = parts["scale"].view(np.uint8)
    blocks[:, 2:4] = products.view(np.uint8)
    blocks[:, 4:36] = parts["codes"].view(np.uint8)


def f16(blocks: Array, at: int) -> Array:
    """The f16 at byte `at` of every block, as [blocks, 1]. GGUF is little-endian, and so is every supported CPU."""
    values: Array = blocks[:, at : at + 2].copy().view(np.float16)
    return values


def _unpack_nibbles(qs: Array, codes: Array) -> None:
    np.bitwise_and(qs, 15, out=codes[:, :16])
    np.right_shift(qs, 4, out=codes[:, 16:])


def _pack_nibbles(codes: Array) -> Array:
    packed: Array = codes[:, :16] | (codes[:, 16:] << np.uint8(4))
    return packed


def _unpack_fifth_bits(qh: Array) -> Array:
    """[blocks, 32], each 0 or 16."""
    bits: Array = np.unpackbits(qh, axis=1, bitorder="little")
    np.left_shift(bits, 4, out=bits)
    return bits
