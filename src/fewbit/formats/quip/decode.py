"""How codes lie in Qidxs.

QuIP# packs four codes, of 2 rows x 2 runs, in 64 bits: the magnitudes' bytes, then their sign bits interleaved; 8 row pairs x
4 run pairs follow each other. Residual codes lie right of the others. QuIP-for-all stores records of 2 to 4 bytes in order,
the residual code below the other, and numbers the sign bits in another way.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array
from fewbit.schemes.lattice.e8p import SIGN_BIT, parity

TILE = 16  # rows that are packed together
_THEIR_BIT = (7, 5, 6, 4, 3, 1, 2, 0)  # QuIP-for-all's sign bit of each entry of a run


@dataclass(frozen=True, slots=True)
class Tiles:
    """i64 [N, words], of which columns `first` to `last` hold codes [N, 4 * (last - first)]."""

    tensor: DiskTensor
    first: int
    last: int

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        low, high = start // TILE * TILE, -(-stop // TILE) * TILE
        codes = from_tiles(self.tensor.rows(low, high)[:, self.first : self.last])
        return np.ascontiguousarray(codes[start - low : stop - low])


@dataclass(frozen=True, slots=True)
class Records:
    """[N, ...] from column `first` on, as records of `size` bytes, each with a code of `wide` bytes at byte `at`."""

    tensor: DiskTensor
    size: int
    at: int
    wide: int
    first: int = 0
    renumbered: bool = False

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        held = np.ascontiguousarray(self.tensor.rows(start, stop)[:, self.first :]).view(np.uint8)
        records = held.reshape(stop - start, held.shape[1] // self.size, self.size)
        codes = np.ascontiguousarray(records[:, :, self.at : self.at + self.wide]).view(f"<u{self.wide}")[
            ..., 0
        ]
        return renumber(codes, signs_of_quip()) if self.renumbered else codes


@dataclass(frozen=True, slots=True)
class Said:
    """f32 [1] that the config says of a tensor."""

    tensor: DiskTensor
    value: float

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        return np.array([self.value], np.float32)


def from_tiles(words: Array) -> Array:
    """u16 codes [N, 4 * W] from i64 [N, W]; N is a multiple of 16, W of 2."""
    n, runs = words.shape[0], words.shape[1] * 4
    tiles = np.ascontiguousarray(words).view(np.uint64).reshape(n // TILE, runs // 8, 8, 4)
    pairs = tiles.swapaxes(1, 2).reshape(n // 2, runs // 2)
    codes = np.empty((n // 2, 2, runs // 2, 2), np.uint16)
    for i in range(4):
        signs = sum(
            (pairs >> np.uint64(32 + 4 * bit + i) & np.uint64(1)) << np.uint64(bit) for bit in range(8)
        )
        codes[:, i % 2, :, i // 2] = (pairs >> np.uint64(8 * i) & np.uint64(255)) << np.uint64(8) | signs
    return codes.reshape(n, runs)


def renumber(codes: Array, signs: Array) -> Array:
    """Codes with the low byte replaced by what `signs` says."""
    changed: Array = codes & np.uint16(0xFF00) | signs[codes & np.uint16(0xFF)]
    return changed


@cache
def signs_of_quip() -> Array:
    """u16 [256]: QuIP#'s sign byte from QuIP-for-all's. There an odd number of bits flips the last entry, here the first."""
    theirs = np.arange(256, dtype=np.uint8)
    odd = parity(theirs)
    flips = (theirs ^ odd)[:, None] >> np.array(_THEIR_BIT, np.uint8) & 1
    ours: Array = (flips.astype(np.uint16) << np.array(SIGN_BIT, np.uint16)).sum(
        axis=1, dtype=np.uint16
    ) ^ odd
    return ours
