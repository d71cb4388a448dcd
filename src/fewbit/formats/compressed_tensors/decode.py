"""Parts that only compressed-tensors stores so: zero points packed down the rows, small integers in bytes, bitmasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.unpack import unpack_codes
from fewbit.schemes.arrays import Array
from fewbit.spec.refusal import CheckpointError


@dataclass(frozen=True, slots=True)
class _OfOne:
    tensor: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)


@dataclass(frozen=True, slots=True)
class ZeroPoints(_OfOne):
    """i32 [ceil(N * bits / 32), G]: each column is one bit stream along N."""

    bits: int

    def read(self, start: int, stop: int) -> Array:
        first = start // 32 * 32  # 32 codes fill whole words at any width
        low, high = first * self.bits // 32, min(-(-stop * self.bits // 32), self.tensor.shape[0])
        words = np.ascontiguousarray(self.tensor.rows(low, high).T)
        codes = unpack_codes(words, self.bits, stop - first)
        return np.ascontiguousarray(codes[:, start - first :].T)


@dataclass(frozen=True, slots=True)
class SmallIntegers(_OfOne):
    """i8 [N, K] whose values have fewer bits than their bytes."""

    bits: int

    def read(self, start: int, stop: int) -> Array:
        codes = self.tensor.rows(start, stop)
        middle = 1 << (self.bits - 1)
        if codes.size and not -middle <= codes.min() <= codes.max() < middle:
            row, column = (int(i) for i in np.argwhere((codes < -middle) | (codes >= middle))[0])
            raise CheckpointError(
                f"{self.tensor.file.path}: tensor {self.tensor} has {codes[row, column]} at [{start + row}, {column}], expected "
                f"{-middle} to {middle - 1}, since the config says {self.bits} bits; the checkpoint is broken"
            )
        return codes


@dataclass(frozen=True, slots=True)
class Mask(_OfOne):
    """u8 [N, ceil(K / 8)], a bit a weight, the low one first."""

    k: int

    def read(self, start: int, stop: int) -> Array:
        return unpack_codes(self.tensor.rows(start, stop), 1, self.k)


@dataclass(frozen=True, slots=True)
class Kept:
    """The weights that a mask keeps, row after row, back at their columns, 0 between them.

    `offsets`: i64 [N], where each row begins; without it every row keeps as many: [N, kept].
    """

    tensor: DiskTensor
    mask: Mask
    offsets: DiskTensor | None = None

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        own = (self.tensor, self.mask.tensor)
        return own if self.offsets is None else (*own, self.offsets)

    def read(self, start: int, stop: int) -> Array:
        mask = self.mask.read(start, stop)
        kept = mask.sum(axis=1, dtype=np.int64)
        if self.offsets is None:
            stored = np.full(stop - start, self.tensor.shape[1])
            first, last = start, stop
        else:
            bounds = np.append(self.offsets.whole(), self.tensor.shape[0])
            if bounds[0] != 0 or (bounds[1:] < bounds[:-1]).any():
                raise CheckpointError(
                    f"{self.tensor.file.path}: tensor {self.offsets} does not ascend from 0 to the {self.tensor.shape[0]} weights of "
                    f"tensor {self.tensor}; the checkpoint is broken"
                )
            stored = np.diff(bounds)[start:stop]
            first, last = int(bounds[start]), int(bounds[stop])
        if len(wrong := np.flatnonzero(kept != stored)):
            row = wrong[0]
            raise CheckpointError(
                f"{self.tensor.file.path}: tensor {self.mask.tensor} keeps {kept[row]} weights in row {start + row}, but tensor "
                f"{self.tensor} holds {stored[row]} of them; the checkpoint is broken"
            )
        values = self.tensor.rows(first, last).reshape(-1)
        out: Array = np.zeros(mask.shape, values.dtype)
        out[mask != 0] = values
        return out
