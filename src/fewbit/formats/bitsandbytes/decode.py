"""Flat 4-bit codes and block scales as rows and groups.

Where a block runs from one row into the next, groups are the largest that divide both the row and the block: a scale is then
held once for each of its groups, and stays what it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbit.formats.bitsandbytes.quant_state import QuantState
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.unpack import unpack_codes
from fewbit.schemes.arrays import Array

INT8_STEP = np.float32(7.874015718698502e-3)
"""1 / 127 in f32: SCB is the largest magnitude of a row."""


@dataclass(frozen=True, slots=True)
class FlatCodes:
    """u8 [N * K / 2, 1]: two codes in a byte, the first one high."""

    weight: DiskTensor
    k: int

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.weight,)

    def read(self, start: int, stop: int) -> Array:
        raw = self.weight.rows(start * self.k // 2, stop * self.k // 2).reshape(stop - start, -1)
        return unpack_codes(raw, 4, self.k, order=(1, 0))


@dataclass(frozen=True, slots=True)
class Nested:
    """What decodes absmax where it is quantized itself: codes of a map of 256, scaled by block, and one offset."""

    absmax: DiskTensor
    quant_map: DiskTensor


@dataclass(frozen=True, slots=True)
class BlockScales:
    absmax: DiskTensor
    state: QuantState
    group: int
    nested: Nested | None = None

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        more = (self.nested.absmax, self.nested.quant_map) if self.nested else ()
        return (self.absmax, *more)

    def read(self, start: int, stop: int) -> Array:
        k, size = self.state.k, self.state.blocksize
        first, last = start * k // size, -(-stop * k // size)
        blocks = (start * k + np.arange((stop - start) * k // self.group) * self.group) // size
        spread: Array = self._scales(first, last)[blocks - first].reshape(stop - start, -1)
        return spread

    def _scales(self, first: int, last: int) -> Array:
        stored = self.absmax.rows(first, last)
        if self.nested is None:
            return stored
        size = self.state.nested_blocksize
        outer = self.nested.absmax.rows(first // size, -(-last // size))
        outer = outer[np.arange(first, last) // size - first // size]
        with np.errstate(invalid="ignore", over="ignore"):
            scales: Array = self.nested.quant_map.whole()[stored] * outer + np.float32(
                self.state.nested_offset
            )
        return scales


@dataclass(frozen=True, slots=True)
class RowScales:
    """SCB f32 [N], the largest magnitude of each row, as the scale of its codes."""

    scb: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.scb,)

    def read(self, start: int, stop: int) -> Array:
        scales: Array = (self.scb.rows(start, stop) * INT8_STEP).reshape(-1, 1)
        return scales
