"""A tensor that lies inside a stored one: rows of it, every second row, or columns of it as rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array


@dataclass(frozen=True, slots=True, kw_only=True)
class StridedTensor(DiskTensor):
    """Rows first, first + step, ... of `base`, a matrix or vector; of its transpose where `transposed`."""

    base: DiskTensor
    first: int
    step: int
    transposed: bool

    def rows(self, start: int, stop: int) -> Array:
        low = self.first + start * self.step
        high = max(low, low + (stop - start - 1) * self.step + 1)
        held = self.base.columns(low, high).T if self.transposed else self.base.rows(low, high)
        return np.ascontiguousarray(held[:: self.step]).reshape(stop - start, *self.shape[1:])

    def columns(self, start: int, stop: int) -> Array:
        if self.transposed:
            wide = self.base.rows(start, stop).T
        else:
            wide = self.base.columns(start, stop)
        last = self.first + self.shape[0] * self.step
        return np.ascontiguousarray(wide[self.first : last : self.step])

    def whole(self) -> Array:
        return self.rows(0, self.shape[0])

    def at(self, index: int) -> DiskTensor:
        raise ValueError(f"tensor {self} is no stack")


def rows_of(base: DiskTensor, first: int, count: int, step: int = 1, transposed: bool = False) -> DiskTensor:
    """`count` rows from `first` on, or every `step`-th; of the transpose, they are columns of `base`."""
    if not transposed and step == 1:
        row = base.bytes // base.shape[0]
        return replace(
            base, shape=(count, *base.shape[1:]), start=base.start + first * row, bytes=count * row
        )
    oriented = base.shape[::-1] if transposed else base.shape
    return StridedTensor(
        base.name, base.kind, (count, *oriented[1:]), base.start, base.bytes * count // oriented[0], base.file, base.index,
        base=base, first=first, step=step, transposed=transposed,
    )  # fmt: skip
