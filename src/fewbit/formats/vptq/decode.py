"""Packed indices: a column has one field, the residual's index above the main one's; a row of a group is one bit stream."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbit.formats.folder.parts import Blocked
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array
from fewbit.spec.refusal import CheckpointError


@dataclass(frozen=True, slots=True)
class Indices:
    """i32 [groups, N / rows, words] as codes [N / rows, groups * columns]: bits low to low + wide of fields of `bits`."""

    tensor: DiskTensor
    rows: int
    columns: int
    bits: int
    low: int
    wide: int

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        groups = [
            Blocked(self.tensor.at(i), self.rows).read(start, stop) for i in range(self.tensor.shape[0])
        ]
        fields = [unpack_fields(words, self.bits, self.columns) for words in groups]
        codes = np.concatenate(fields, axis=1) >> np.uint64(self.low) & np.uint64((1 << self.wide) - 1)
        return codes.astype(np.uint16)


@dataclass(frozen=True, slots=True)
class OutlierIndices:
    """i16 (meant unsigned) [1, N / rows, outliers], each below `centroids`."""

    tensor: DiskTensor
    rows: int
    centroids: int

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        codes: Array = Blocked(self.tensor.at(0), self.rows).read(start, stop).view(np.uint16)
        if codes.size and codes.max() >= self.centroids:
            row, column = (int(i) for i in np.argwhere(codes >= self.centroids)[0])
            raise CheckpointError(
                f"{self.tensor.file.path}: tensor {self.tensor} has the index {codes[row, column]} in vector row "
                f"{start // self.rows + row}, column {column}, expected less than {self.centroids}; the checkpoint is broken"
            )
        return codes


@dataclass(frozen=True, slots=True)
class Order:
    """i32 [K]: where each column of the weight lies, from the column of the weight that lies at each place."""

    tensor: DiskTensor
    order: tuple[int, ...]

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        return np.array(self.order, np.int32)


def unpack_fields(words: Array, bits: int, count: int) -> Array:
    """u64 [rows, count] from u32 words [rows, ...]: fields of up to 32 bits in one stream, so one may straddle words."""
    held = np.ascontiguousarray(words).view(np.uint32).astype(np.uint64)
    held = np.concatenate([held, np.zeros((len(held), 1), np.uint64)], axis=1)
    at = np.arange(count) * bits
    pairs = held[:, at // 32] | held[:, at // 32 + 1] << np.uint64(32)
    fields: Array = pairs >> (at % 32).astype(np.uint64) & np.uint64((1 << bits) - 1)
    return fields


def pack_fields(fields: Array, bits: int) -> Array:
    """u32 [rows, words]; the last one is filled with zeros."""
    rows, count = fields.shape
    raw = (fields[:, :, None] >> np.arange(bits, dtype=np.uint64) & np.uint64(1)).astype(np.uint8)
    stream = np.zeros((rows, -(-count * bits // 32) * 32), np.uint8)
    stream[:, : count * bits] = raw.reshape(rows, -1)
    words: Array = np.packbits(stream, axis=1, bitorder="little").view(np.uint32)
    return words
