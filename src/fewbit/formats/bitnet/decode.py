"""Ternary codes of packed bytes, and of plain floats that are to be made ternary."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbit.formats.folder.packing import laps
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import narrow, widen
from fewbit.spec.refusal import CheckpointError

PER_BYTE = 4
_PIECE = 1 << 22  # weights looked at together


@dataclass(frozen=True, slots=True)
class TernaryRows:
    """int8 [N, K] of u8 [N / 4, K]: byte row r holds the rows r, r + N/4, r + N/2, r + 3N/4, the first in its lowest bits,
    each weight with 1 added."""

    packed: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.packed,)

    def read(self, start: int, stop: int) -> Array:
        pieces = [
            (self.packed.rows(a, b) >> np.uint8(2 * lap)) & np.uint8(3)
            for lap, a, b in laps(start, stop, self.packed.shape[0])
        ]
        codes: Array = np.concatenate(pieces)
        if (codes == 3).any():
            row, column = (int(i) for i in np.argwhere(codes == 3)[0])
            raise CheckpointError(
                f"{self.packed.file.path}: tensor {self.packed} has the code 3 for the weight at row {start + row}, column "
                f"{column}, expected 0, 1 or 2 for -1, 0 or 1; the checkpoint is broken"
            )
        return (codes - np.uint8(1)).view(np.int8)


@dataclass(slots=True)
class OnlineScale:
    """The mean magnitude of a plain weight, at least 1e-5, as one number [1] of the weight's own type.

    Read once, in pieces, and summed in f64; the layer's own sum is of f32 in an order that nothing fixes.
    """

    weight: DiskTensor
    mean: float = 0.0

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.weight,)

    def read(self, start: int, stop: int) -> Array:
        return narrow(np.float32(1) / self.inverse().reshape(1), self.weight.dtype)

    def inverse(self) -> Array:
        """f32 scalar that weights are multiplied by before they are rounded."""
        if not self.mean:
            (n, k), total = self.weight.shape, 0.0
            step = max(1, _PIECE // k)
            for first in range(0, n, step):
                piece = widen(self.weight.rows(first, min(n, first + step)), self.weight.dtype)
                self._check(piece, first)
                total += float(np.abs(piece).sum(dtype=np.float64))
            self.mean = max(total / (n * k), 1e-5)
        inverse: Array = np.float32(1) / np.asarray(self.mean, np.float32)
        return inverse

    def _check(self, piece: Array, first: int) -> None:
        if not np.isfinite(piece).all():
            row, column = (int(i) for i in np.argwhere(~np.isfinite(piece))[0])
            raise CheckpointError(
                f"{self.weight.file.path}: tensor {self.weight} has the weight {piece[row, column]} at row {first + row}, column "
                f"{column}, expected finite numbers; the checkpoint is broken, fetch or convert it again"
            )


@dataclass(frozen=True, slots=True)
class OnlineTernary:
    """int8 [N, K]: plain weights over their scale, rounded to even, within -1 and 1."""

    scale: OnlineScale

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return self.scale.tensors

    def read(self, start: int, stop: int) -> Array:
        weight = self.scale.weight
        rounded = np.rint(widen(weight.rows(start, stop), weight.dtype) * self.scale.inverse())
        codes: Array = np.clip(rounded, -1, 1).astype(np.int8)
        return codes
