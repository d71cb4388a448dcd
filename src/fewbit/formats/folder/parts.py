"""Where a canonical part comes from on disk, and how its rows are decoded: the building stones of `Resolved.parts`.

Every part gives, for rows [start, stop) of the weight, the array that the scheme's `part_shapes(stop - start, k)` asks for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fewbit.formats.folder.packing import unpack_planes
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.unpack import apply_sign, transposed, unpack_across, unpack_codes
from fewbit.schemes.arrays import Array


class Part(Protocol):
    @property
    def tensors(self) -> tuple[DiskTensor, ...]: ...
    def read(self, start: int, stop: int) -> Array: ...


@dataclass(frozen=True, slots=True)
class _OfOne:
    tensor: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)


@dataclass(frozen=True, slots=True)
class Rows(_OfOne):
    """Stored as the canonical part is: [N, ...]. A vector [N] may serve as [N, 1]: `shape` is that of one row."""

    shape: tuple[int, ...] | None = None

    def read(self, start: int, stop: int) -> Array:
        rows = self.tensor.rows(start, stop)
        return rows if self.shape is None else rows.reshape(stop - start, *self.shape)


@dataclass(frozen=True, slots=True)
class EveryRow(_OfOne):
    """Rows first, first + step, ... of the stored ones: interleaved projections."""

    first: int
    step: int

    def read(self, start: int, stop: int) -> Array:
        low = self.first + start * self.step
        high = max(low, self.first + (stop - 1) * self.step + 1)
        return np.ascontiguousarray(self.tensor.rows(low, high)[:: self.step])


@dataclass(frozen=True, slots=True)
class Columns(_OfOne):
    """Stored transposed: [..., N] on disk."""

    def read(self, start: int, stop: int) -> Array:
        return transposed(self.tensor.columns(start, stop))


@dataclass(frozen=True, slots=True)
class Shared(_OfOne):
    """The same for all rows: a scale of the tensor, a group index, a codebook. `shape` is the canonical one."""

    shape: tuple[int, ...]

    def read(self, start: int, stop: int) -> Array:
        return self.tensor.whole().reshape(self.shape)


@dataclass(frozen=True, slots=True)
class Blocked(_OfOne):
    """[ceil(N/n), ceil(K/k)]: scales of 2-D blocks; rows are cut at multiples of n only."""

    n: int

    def read(self, start: int, stop: int) -> Array:
        return self.tensor.rows(start // self.n, -(-stop // self.n))


@dataclass(frozen=True, slots=True)
class PackedRows(_OfOne):
    """[N, words]: the codes of a row in one bit stream along K. `sign`: "none", "offset" (2^(bits-1) added), "twos"."""

    bits: int
    count: int
    sign: str = "none"
    order: tuple[int, ...] = ()

    def read(self, start: int, stop: int) -> Array:
        rows = self.tensor.rows(start, stop)
        words = rows.reshape(stop - start, math.prod(rows.shape[1:]))
        return unpack_codes(words, self.bits, self.count, self.sign, self.order)


@dataclass(frozen=True, slots=True)
class PackedDown(_OfOne):
    """[K * bits / 32, N]: the codes of a column of words are those of one row of the weight, in one bit stream or in planes."""

    bits: int
    count: int
    sign: str = "none"
    planes: tuple[int, ...] = ()

    def read(self, start: int, stop: int) -> Array:
        words = transposed(self.tensor.columns(start, stop))
        if not self.planes:
            return unpack_codes(words, self.bits, self.count, self.sign)
        return apply_sign(unpack_planes(words, self.planes, self.count), self.bits, self.sign)


@dataclass(frozen=True, slots=True)
class PackedAcross(_OfOne):
    """[X, N * bits / 32]: packed along N (AWQ weights, zero points of GPTQ and AWQ); canonical [N, X].

    `fix` is applied to the words before unpacking, `fix_codes` to the codes.
    """

    bits: int
    sign: str = "none"
    order: tuple[int, ...] = ()
    fix: Callable[[Array], Array] | None = None
    fix_codes: Callable[[Array], Array] | None = None
    planes: tuple[int, ...] = ()

    def read(self, start: int, stop: int) -> Array:
        first = start // 32 * 32  # 32 codes fill whole words at any width
        width = self.tensor.dtype.bits
        low = first * self.bits // width
        high = min(-(-stop // 32) * 32 * self.bits // width, self.tensor.shape[1])
        words = self.tensor.columns(low, high)
        words, count = self.fix(words) if self.fix else words, words.shape[1] * width // self.bits
        if self.planes:
            rows = transposed(unpack_planes(words, self.planes, count))
        else:
            rows = unpack_across(words, self.bits, count, self.order)
        rows = self.fix_codes(rows) if self.fix_codes else rows
        return apply_sign(np.ascontiguousarray(rows[start - first : stop - first]), self.bits, self.sign)


@dataclass(frozen=True, slots=True)
class Computed:
    """Whatever the others cannot say: `rows(start, stop)` reads `tensors` with bounded memory."""

    tensors: tuple[DiskTensor, ...]
    rows: Callable[[int, int], Array]

    def read(self, start: int, stop: int) -> Array:
        return self.rows(start, stop)
