"""Marlin's layout of 4-bit weights: tiles of 16 x 16, four across to a run of 1024 codes in the order of the tensor cores.

codes   i32 [K/16, 2 N]    each run of 128 words holds 16 rows of K by 64 outputs
scales  f [K/group, N]     each run of 64 outputs permuted; of 32 where one scale serves the whole column
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.unpack import place_tiles, transposed, unpack_codes
from fewbit.schemes.arrays import Array

TILE, ACROSS = 16, 64
_SCALES = np.arange(64).reshape(8, 8).T.reshape(-1)
_SINGLE = np.array([2 * i + j for i in range(4) for j in (0, 1, 8, 9, 16, 17, 24, 25)])
HALF, BYTES = "half", "bytes"
"""For products with 16-bit activations (Marlin), or with 8-bit ones (QQQ)."""


@cache
def code_order(kind: str) -> Array:
    """[1024]: code i of a run is element order[i] of its four tiles (row 16 * 16, then column)."""
    order = []
    for i in range(32):
        rows = [4 * (i % 4) + j for j in range(4)]
        if kind == HALF:
            rows = [2 * (i % 4), 2 * (i % 4) + 1, 2 * (i % 4 + 4), 2 * (i % 4 + 4) + 1]
        one = [TILE * row + i // 4 + 8 * block for block in (0, 1) for row in rows]
        order += [at + 256 * tile for tile in range(4) for at in one]
    interleaved: Array = np.array(order).reshape(-1, 8)[:, [0, 2, 4, 6, 1, 3, 5, 7]].reshape(-1)
    return interleaved


@cache
def _rows_order(kind: str) -> Array:
    """[1024]: code i of a run is element order[i] = output * 16 + row of 64 outputs by 16 rows of K."""
    tile, rest = np.divmod(code_order(kind), TILE * TILE)
    row, column = np.divmod(rest, TILE)
    order: Array = ((tile * TILE + column) * TILE + row).astype(np.int32)
    return order


@dataclass(frozen=True, slots=True)
class MarlinCodes:
    tensor: DiskTensor
    kind: str = HALF
    sign: str = "offset"

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        first, last = start // ACROSS, -(-stop // ACROSS)
        words = self.tensor.columns(first * 128, last * 128)
        runs = unpack_codes(words, 4, words.shape[1] * 8, self.sign).reshape(len(words), -1, ACROSS * TILE)
        rows = place_tiles(runs, _rows_order(self.kind), ACROSS, TILE)
        low = first * ACROSS
        return np.ascontiguousarray(rows[start - low : stop - low])


@dataclass(frozen=True, slots=True)
class MarlinScales:
    """[N, groups]. `single`: one scale serves the whole column."""

    tensor: DiskTensor
    single: bool = False

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        order = _SINGLE if self.single else _SCALES
        low, high = start // ACROSS * ACROSS, -(-stop // ACROSS) * ACROSS
        runs = self.tensor.columns(low, high).reshape(self.tensor.shape[0], -1, len(order))
        out = np.empty_like(runs)
        out[..., order] = runs
        return transposed(out.reshape(len(runs), -1)[:, start - low : stop - low])


def pack_marlin(codes: Array, kind: str = HALF) -> Array:
    """i32 [K/16, 2 N] from unsigned codes [N, K]."""
    n, k = codes.shape
    tiles = (
        codes.T.reshape(k // TILE, TILE, n // TILE, TILE).transpose(0, 2, 1, 3).reshape(k // TILE, -1, 1024)
    )
    runs = tiles[..., code_order(kind)].reshape(k // TILE, -1, 8).astype(np.uint32)
    words: Array = np.bitwise_or.reduce(runs << np.arange(0, 32, 4, dtype=np.uint32), axis=-1).view(np.int32)
    return words


def pack_marlin_scales(scale: Array, single: bool = False) -> Array:
    """[groups, N] from [N, groups]."""
    order = _SINGLE if single else _SCALES
    runs = np.ascontiguousarray(scale.T).reshape(scale.shape[1], -1, len(order))
    out: Array = np.ascontiguousarray(runs[..., order]).reshape(scale.shape[1], -1)
    return out
