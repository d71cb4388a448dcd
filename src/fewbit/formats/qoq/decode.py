"""The order of QServe's kernels: codes in tiles of 32 x 32, and the second level's values in runs of 32 rows.

Row n and column k of a tile are n = 16 n1 + 8 n2 + n3 and k = 16 k1 + 4 k2 + k3. A tile is 512 bytes [n3][k2][k1][n2][k3], each
with the code of n1 = 0 in its low nibble and that of n1 = 1 in its high one. Value n of a run lies at 4 (n mod 8) + n div 8.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array

TILE = 32


@dataclass(frozen=True, slots=True)
class TiledCodes:
    """uint8 codes [N, K] of i8 [N, K / 2]."""

    packed: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.packed,)

    def read(self, start: int, stop: int) -> Array:
        first = start // TILE * TILE
        tiles = self.packed.rows(first, -(-stop // TILE) * TILE)
        return np.ascontiguousarray(untile(tiles)[start - first : stop - first])


def untile(packed: Array) -> Array:
    rows, k = len(packed), packed.shape[1] * 2
    raw = packed.view(np.uint8).reshape(rows // TILE, k // TILE, 8, 4, 2, 2, 4)
    codes = np.stack(
        [raw & np.uint8(15), raw >> np.uint8(4)], axis=-1
    )  # [N/32][K/32][n3][k2][k1][n2][k3][n1]
    found: Array = codes.transpose(0, 7, 5, 2, 1, 4, 3, 6).reshape(rows, k)
    return found


def tile(codes: Array) -> Array:
    """int8 [N, K / 2]: the inverse of `untile`."""
    n, k = codes.shape
    parts = codes.astype(np.uint8).reshape(n // TILE, 2, 2, 8, k // TILE, 2, 4, 4)
    ordered = parts.transpose(0, 4, 3, 6, 5, 2, 7, 1)
    packed: Array = (ordered[..., 0] | (ordered[..., 1] << np.uint8(4))).reshape(n, k // 2).view(np.int8)
    return packed


@dataclass(frozen=True, slots=True)
class SecondLevel:
    """int8 [N, K / 128] of i8 [K / 128, N]."""

    tensor: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        first = start // TILE * TILE
        stored = self.tensor.columns(first, -(-stop // TILE) * TILE)
        runs = stored.reshape(len(stored), -1, 8, 4).transpose(0, 1, 3, 2).reshape(len(stored), -1)
        return np.ascontiguousarray(runs[:, start - first : stop - first].T)


def to_runs(values: Array) -> Array:
    """[K / 128, N] of [N, K / 128]: the inverse of `SecondLevel`."""
    groups = values.shape[1]
    stored: Array = values.T.reshape(groups, -1, 4, 8).transpose(0, 1, 3, 2).reshape(groups, -1)
    return np.ascontiguousarray(stored)


@dataclass(frozen=True, slots=True)
class Negated:
    """f16 [N, 1]: a vector with the other sign."""

    tensor: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        found: Array = -self.tensor.rows(start, stop).reshape(stop - start, 1)
        return found
