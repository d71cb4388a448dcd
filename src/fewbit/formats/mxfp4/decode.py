"""Interleaved packed rows: those of the gate at 0, 2, 4, ... and those of up at 1, 3, 5, ... of one tensor."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.formats.folder.parts import EveryRow
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.unpack import unpack_codes
from fewbit.schemes.arrays import Array


@dataclass(frozen=True, slots=True)
class PackedEveryRow:
    """FP4 codes of `rows`, two a byte, the low nibble first."""

    rows: EveryRow
    count: int

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return self.rows.tensors

    def read(self, start: int, stop: int) -> Array:
        return unpack_codes(self.rows.read(start, stop).reshape(stop - start, self.count // 2), 4, self.count)
