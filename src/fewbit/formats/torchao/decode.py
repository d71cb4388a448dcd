"""Codes in whole bytes, proved to be what the config says of them as their rows are read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbit.formats.folder.parts import Part
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array
from fewbit.spec.dtype import DType
from fewbit.spec.refusal import CheckpointError


@dataclass(frozen=True, slots=True)
class BoundedCodes:
    """Codes of fewer than 8 bits in a byte each: one out of their range has no meaning."""

    tensor: DiskTensor
    element: DType

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        codes = self.tensor.rows(start, stop)
        low, high = self.element.lowest, self.element.highest
        if codes.min() < low or codes.max() > high:
            row, column = (int(i) for i in np.argwhere((codes < low) | (codes > high))[0])
            raise CheckpointError(
                f"{self.tensor.file.path}: tensor {self.tensor} has the code {codes[row, column]} at [{start + row}, {column}], "
                f"expected {low} to {high} of an {self.element} weight; the checkpoint is broken"
            )
        return codes


@dataclass(frozen=True, slots=True)
class SymmetricCodes:
    """Codes whose zero point is 0 everywhere: proved for each row that is read, and then no part of the scheme."""

    codes: Part
    zeros: Part
    zero_point: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (*self.codes.tensors, self.zero_point)

    def read(self, start: int, stop: int) -> Array:
        zeros = self.zeros.read(start, stop)
        if zeros.any():
            raise CheckpointError(
                f"{self.zero_point.file.path}: tensor {self.zero_point} has the zero point {zeros[zeros != 0][0]} in rows {start} to "
                f"{stop - 1}, but the config says that weights are symmetric, which means 0; they contradict each other"
            )
        return self.codes.read(start, stop)
