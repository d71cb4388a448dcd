"""Blocks of whole rows to canonical parts, and parts to blocks, in pieces that stay in the cache."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fewbit.formats.gguf.types import BY_SCHEME, GgufType
from fewbit.schemes.arrays import Array, array_dtype, empty_parts
from fewbit.spec.scheme import QuantTensor

PIECE_ELEMS = 1 << 18  # codes decoded at a time: they and their temporaries fit a 1 MiB L2


def decode_into(kind: GgufType, raw: Array, parts: Mapping[str, Array]) -> None:
    """raw: uint8, the bytes of whole rows. parts: C-contiguous arrays of those rows, filled here."""
    if kind.unpack is None:
        parts["codes"].reshape(-1)[:] = raw.view(array_dtype(kind.scheme.codes))
        return
    blocks = raw.reshape(raw.size // kind.block_bytes, kind.block_bytes)
    by_block = _by_block(parts, len(blocks))
    step = PIECE_ELEMS // kind.block
    for start in range(0, len(blocks), step):
        piece = slice(start, start + step)
        kind.unpack(blocks[piece], {role: part[piece] for role, part in by_block.items()})


def decode(kind: GgufType, raw: Array, n: int, k: int) -> QuantTensor:
    """raw: uint8, the n * row_bytes(k) bytes of n rows."""
    parts = empty_parts(kind.scheme, n, k)
    decode_into(kind, raw, parts)
    return QuantTensor(kind.scheme, (n, k), parts)


def encode(tensor: QuantTensor) -> Array:
    """uint8 [N, row bytes] (or [bytes] of a vector): the exact inverse of `decode`."""
    kind = BY_SCHEME[tensor.scheme]
    parts = {role: np.ascontiguousarray(part) for role, part in tensor.parts.items()}
    if kind.pack is None:
        plain: Array = parts["codes"].view(np.uint8)
        return plain
    n, k = tensor.shape
    blocks = np.empty((n * (k // kind.block), kind.block_bytes), np.uint8)
    kind.pack(_by_block(parts, len(blocks)), blocks)
    return blocks.reshape(n, kind.row_bytes(k))


def _by_block(parts: Mapping[str, Array], blocks: int) -> dict[str, Array]:
    return {role: part.reshape(blocks, part.size // blocks if blocks else 1) for role, part in parts.items()}
