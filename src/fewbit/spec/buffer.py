"""Opaque storage that a backend hands out. Models and layers pass buffers to ops and do no arithmetic on them."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from fewbit.spec.dtype import DType


@dataclass(frozen=True, slots=True)
class Buffer:
    """Row-major view: `shape` and `strides` in elements, `offset` in elements from the start of `handle`.

    `handle` belongs to the backend that allocated it (a numpy byte array on the CPU, a tensor on CUDA).
    """

    dtype: DType
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    handle: Any
    offset: int = 0

    def as_rows(self) -> Buffer:
        """View [..., k] as [rows, k]; the leading axes must lie evenly, as they do unless columns were cut out between them."""
        rows, strides = self.shape[:-1], self.strides[:-1]
        for axis in range(len(rows) - 1):
            if strides[axis] != strides[axis + 1] * rows[axis + 1]:
                raise ValueError(
                    f"a buffer {list(self.shape)} of strides {list(self.strides)} has no even rows"
                )
        step = strides[-1] if strides else self.shape[-1]
        return Buffer(
            self.dtype, (prod(rows), self.shape[-1]), (step, self.strides[-1]), self.handle, self.offset
        )

    def columns(self, start: int, stop: int) -> Buffer:
        """View of columns [start, stop) of a two-dimensional buffer, sharing its storage."""
        rows, cols = self.shape
        if not 0 <= start <= stop <= cols:
            raise ValueError(f"columns {start}:{stop} lie outside 0:{cols}")
        return Buffer(
            self.dtype, (rows, stop - start), self.strides, self.handle, self.offset + start * self.strides[1]
        )
