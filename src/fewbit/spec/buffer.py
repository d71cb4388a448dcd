"""Opaque storage that a backend hands out. Models and layers pass buffers to ops and do no arithmetic on them."""

from __future__ import annotations

from dataclasses import dataclass
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

    def columns(self, start: int, stop: int) -> Buffer:
        """View of columns [start, stop) of a two-dimensional buffer, sharing its storage."""
        rows, cols = self.shape
        if not 0 <= start <= stop <= cols:
            raise ValueError(f"columns {start}:{stop} lie outside 0:{cols}")
        return Buffer(
            self.dtype, (rows, stop - start), self.strides, self.handle, self.offset + start * self.strides[1]
        )
