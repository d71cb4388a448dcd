"""HQQ's codes and scales, found by the position n * K + k of a weight in its matrix.

The matrix is seen as groups, [N K / g, g] along K (axis 1) or [g, N K / g] down N (axis 0). Codes are packed down the rows of
that: with p codes a word, word i holds the codes i, i + count, i + 2 count, ... of the matrix, the first in its highest bits.
Packed rows that do not fill all words (3 bits, ten codes a word of 32 bits) are followed by zeros.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

import numpy as np

from fewbit.formats.folder.packing import laps
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.hqq.config import Settings
from fewbit.schemes.arrays import Array
from fewbit.spec.granularity import CHANNEL, TENSOR, Granularity, group
from fewbit.spec.refusal import CheckpointError


@dataclass(frozen=True, slots=True)
class Packing:
    """`kind` of the words, `per_word` codes of `bits` each."""

    kind: str
    bits: int
    per_word: int

    def shift(self, piece: int) -> int:
        return (self.per_word - 1 - piece) * self.bits


PACKINGS: dict[str, Packing] = {
    "8bit_u8": Packing("U8", 8, 1),
    "4bit_u8": Packing("U8", 4, 2),
    "3bit_32": Packing("I32", 3, 10),
    "2bit_u8": Packing("U8", 2, 4),
    "1bit_u8": Packing("U8", 1, 8),
}
PACKING_OF: dict[float, str] = {
    8: "8bit_u8", 6: "8bit_u8", 5: "8bit_u8", 4: "4bit_u8", 3: "3bit_32", 2: "2bit_u8", 1.58: "2bit_u8", 1: "1bit_u8",
}  # fmt: skip


def grain_of(settings: Settings, size: int, k: int) -> Granularity:
    """What shares a canonical scale: groups of `size` that straddle rows are cut at them, those of axis 0 lie across rows."""
    if not settings.channel_wise:
        return TENSOR
    common = gcd(k, size) if settings.axis == 1 else 1
    return CHANNEL if common == k else group(common)


@dataclass(frozen=True, slots=True)
class PackedDownGroups:
    """uint8 codes [N, K] of `words`, a vector."""

    words: DiskTensor
    packing: Packing
    k: int
    highest: int

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.words,)

    def read(self, start: int, stop: int) -> Array:
        mask = (1 << self.packing.bits) - 1
        pieces = [
            ((self.words.rows(a, b) >> self.packing.shift(lap)) & mask).astype(np.uint8)
            for lap, a, b in laps(start * self.k, stop * self.k, self.words.shape[0])
        ]
        codes: Array = np.concatenate(pieces).reshape(stop - start, self.k)
        if codes.max() > self.highest:
            row, column = (int(i) for i in np.argwhere(codes > self.highest)[0])
            raise CheckpointError(
                f"{self.words.file.path}: tensor {self.words.name!r} has the code {codes[row, column]} at row {start + row}, column "
                f"{column}, expected at most {self.highest}; the checkpoint is broken"
            )
        return codes


@dataclass(frozen=True, slots=True)
class AlongGroups:
    """Scales or zero points of axis 1, a vector with one for each `group` weights on end: [N, K / size]."""

    values: DiskTensor
    group: int
    k: int
    size: int

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.values,)

    def read(self, start: int, stop: int) -> Array:
        groups = np.arange(start * self.k, stop * self.k, self.size) // self.group
        held = self.values.rows(int(groups[0]), int(groups[-1]) + 1)
        spread: Array = held[groups - groups[0]].reshape(stop - start, self.k // self.size)
        return spread


@dataclass(frozen=True, slots=True)
class DownGroups:
    """Scales or zero points of axis 0: position p has that of p modulo their number, so each weight of a row has its own."""

    values: DiskTensor
    k: int

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.values,)

    def read(self, start: int, stop: int) -> Array:
        runs = laps(start * self.k, stop * self.k, self.values.shape[0])
        pieces: Array = np.concatenate([self.values.rows(a, b) for _, a, b in runs])
        return pieces.reshape(stop - start, self.k)
