"""Blocks of whole rows to canonical parts, and parts to blocks, in pieces that stay in the cache."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from fewbit import codec
from fewbit.formats.gguf.types import BY_SCHEME, GgufType
from fewbit.schemes.arrays import Array, array_dtype, empty_parts
from fewbit.spec.scheme import QuantTensor

PIECE_ELEMS = 1 << 18  # codes decoded at a time: they and their temporaries fit a 1 MiB L2


def decode_into(kind: GgufType, raw: Array, parts: Mapping[str, Array]) -> None:
    """raw: uint8, the bytes of whole rows. parts: C-contiguous arrays of those rows, filled here; `constants` are not among them."""
    if kind.unpack is None:
        parts["codes"].reshape(-1)[:] = raw.view(array_dtype(kind.scheme.codes))
        return
    blocks = raw.reshape(raw.size // kind.block_bytes, kind.block_bytes)
    by_block = _by_block(parts, len(blocks))
    if kind.id in codec.BLOCK_TYPES and codec.available():
        codec.unpack_blocks(kind.id, blocks, by_block)
        return
    step = PIECE_ELEMS // kind.block
    for start in range(0, len(blocks), step):
        piece = slice(start, start + step)
        kind.unpack(blocks[piece], {role: part[piece] for role, part in by_block.items()})


def decode(kind: GgufType, raw: Array, n: int, k: int) -> QuantTensor:
    """raw: uint8, the n * row_bytes(k) bytes of n rows."""
    parts, fixed = empty_parts(kind.scheme, n, k), constants(kind)
    decode_into(kind, raw, {role: part for role, part in parts.items() if role not in fixed})
    return QuantTensor(kind.scheme, (n, k), {**parts, **fixed})


def constants(kind: GgufType) -> dict[str, Array]:
    """Parts that are the same for every tensor of the type."""
    return {"codebook": np.array(kind.codebook, np.float32)} if kind.codebook else {}


def encode(tensor: QuantTensor, kind: GgufType | None = None) -> Array:
    """uint8 [N, row bytes] (or [bytes] of a vector): the exact inverse of `decode`. `kind`: one of the tensor's scheme."""
    kind = kind or BY_SCHEME[tensor.scheme]
    parts = {role: np.ascontiguousarray(part) for role, part in tensor.parts.items()}
    for role, fixed in constants(kind).items():
        if not np.array_equal(parts.pop(role), fixed):
            raise ValueError(f"{kind.name} has a {role} of its own, which is not the tensor's")
    if kind.pack is None:
        plain: Array = parts["codes"].view(np.uint8)
        return plain
    n, k = tensor.shape
    if k % kind.block:
        raise ValueError(f"{kind.name} needs rows of a multiple of {kind.block} elements, got {k}")
    blocks = np.empty((n * (k // kind.block), kind.block_bytes), np.uint8)
    kind.pack(_by_block(parts, len(blocks)), blocks)
    return blocks.reshape(n, kind.row_bytes(k))


def _by_block(parts: Mapping[str, Array], blocks: int) -> dict[str, Array]:
    return {role: part.reshape(blocks, part.size // blocks if blocks else 1) for role, part in parts.items()}
