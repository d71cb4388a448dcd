"""4-bit values in bytes, and scales that are only there as a factor of deq_scale."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import widen
from fewbit.spec.refusal import CheckpointError


@dataclass(frozen=True, slots=True)
class Ranged:
    """Proved to be from -8 to 7 in each row that is read."""

    tensor: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        codes = self.tensor.rows(start, stop)
        if ((codes < -8) | (codes > 7)).any():
            row, column = (int(i) for i in np.argwhere((codes < -8) | (codes > 7))[0])
            raise CheckpointError(
                f"{self.tensor.file.path}: tensor {self.tensor} has the value {codes[row, column]} at row {start + row}, column "
                f"{column}, expected 4-bit values from -8 to 7; it is packed in a way that is not supported, or broken"
            )
        return codes


@dataclass(frozen=True, slots=True)
class UndoneProduct:
    """deq_scale / input_scale: f32 [N, 1]."""

    product: DiskTensor
    single: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.product, self.single)

    def read(self, start: int, stop: int) -> Array:
        divisor = widen(self.single.whole(), self.single.dtype)
        if not np.isfinite(divisor).all() or not divisor.all():
            raise CheckpointError(
                f"{self.single.file.path}: tensor {self.single} is {divisor[0]}, expected a finite number other than 0, since "
                f"the weight's scale is {self.product.name!r} over it; the checkpoint is broken"
            )
        quotient: Array = low_floats(self.product.rows(start, stop)) / divisor
        return quotient.reshape(-1, 1)


def low_floats(stored: Array) -> Array:
    """f32 as it is, or the low halves of i64."""
    whole = np.ascontiguousarray(stored)
    if whole.dtype == np.float32:
        return whole
    halves: Array = whole.view(np.float32).reshape(-1, 2)[:, 0]  # little endian
    return halves
