"""Blocks whose nibbles look up sixteen values: IQ4_NL, IQ4_XS, MXFP4, NVFP4, to parts and back.

    bytes   IQ4_NL  d qs[16]                            32 elements     d: f16
            IQ4_XS  d scales_h[2] scales_l[4] qs[128]   256 elements
            MXFP4   e qs[16]                            32 elements     e: e8m0
            NVFP4   d[4] qs[32]                         64 elements     d: e4m3 without a sign

In each run of elements that share a scale the first half lies in the low nibbles, the second half in the high ones.
llama.cpp reads the scale codes that are NaN (e8m0 255, e4m3 127) as numbers; here they are refused as NaN, like anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fewbit.formats.gguf.blocks_legacy import f16
from fewbit.schemes.arrays import Array

Parts = Mapping[str, Array]

IQ4_VALUES = (-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113)


def unpack_iq4_nl(blocks: Array, parts: Parts) -> None:
    parts["scale"][:] = f16(blocks, 0)
    _unpack(blocks[:, 2:18], parts["codes"], 32)


def pack_iq4_nl(parts: Parts, blocks: Array) -> None:
    blocks[:, 0:2] = parts["scale"].view(np.uint8)
    blocks[:, 2:18] = _pack(parts["codes"], 32)


def unpack_iq4_xs(blocks: Array, parts: Parts) -> None:
    parts["super_scale"][:] = f16(blocks, 0)
    scale = parts["scale"].view(np.uint8)
    low = blocks[:, 4:8]
    scale[:, 0::2], scale[:, 1::2] = low & 15, low >> 4
    for i in range(8):
        scale[:, i] |= ((blocks[:, 2 + i // 4] >> (2 * (i % 4))) & 3) << 4
    np.subtract(scale, 32, out=scale)
    _unpack(blocks[:, 8:136], parts["codes"], 32)


def pack_iq4_xs(parts: Parts, blocks: Array) -> None:
    blocks[:, 0:2] = parts["super_scale"].view(np.uint8)
    scale = parts["scale"].view(np.uint8) + np.uint8(32)
    high = (scale >> 4).reshape(-1, 2, 4)
    blocks[:, 2:4] = high[..., 0] | (high[..., 1] << 2) | (high[..., 2] << 4) | (high[..., 3] << 6)
    blocks[:, 4:8] = (scale[:, 0::2] & 15) | ((scale[:, 1::2] & 15) << 4)
    blocks[:, 8:136] = _pack(parts["codes"], 32)


def unpack_mxfp4(blocks: Array, parts: Parts) -> None:
    parts["scale"][:] = blocks[:, :1]
    _unpack(blocks[:, 1:17], parts["codes"], 32)


def pack_mxfp4(parts: Parts, blocks: Array) -> None:
    blocks[:, :1] = parts["scale"]
    blocks[:, 1:17] = _pack(parts["codes"], 32)


def unpack_nvfp4(blocks: Array, parts: Parts) -> None:
    np.bitwise_and(blocks[:, :4], 0x7F, out=parts["scale"])  # the sign bit is no part of the number
    _unpack(blocks[:, 4:36], parts["codes"], 16)


def pack_nvfp4(parts: Parts, blocks: Array) -> None:
    if (parts["scale"] > 0x7F).any():
        raise ValueError("NVFP4 blocks have no negative scales")
    blocks[:, :4] = parts["scale"]
    blocks[:, 4:36] = _pack(parts["codes"], 16)


def _unpack(qs: Array, codes: Array, run: int) -> None:
    halves = codes.reshape(len(codes), -1, 2, run // 2)
    packed = qs.reshape(len(codes), -1, run // 2)
    np.bitwise_and(packed, 15, out=halves[:, :, 0])
    np.right_shift(packed, 4, out=halves[:, :, 1])


def _pack(codes: Array, run: int) -> Array:
    halves = codes.reshape(len(codes), -1, 2, run // 2)
    packed: Array = (halves[:, :, 0] | (halves[:, :, 1] << np.uint8(4))).reshape(len(codes), -1)
    return packed
