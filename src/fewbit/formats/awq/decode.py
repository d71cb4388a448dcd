"""Zero points that the config says are all in the middle."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbit.formats.folder.parts import Part
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array
from fewbit.spec.refusal import CheckpointError

MIDDLE = 8


@dataclass(frozen=True, slots=True)
class MiddleZeros:
    """Codes whose zero point is 8 everywhere: proved for each row that is read, and then no part of the scheme."""

    codes: Part
    zeros: Part

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (*self.codes.tensors, *self.zeros.tensors)

    def read(self, start: int, stop: int) -> Array:
        zeros = self.zeros.read(start, stop)
        if (zeros != MIDDLE).any():
            row, column = (int(i) for i in np.argwhere(zeros != MIDDLE)[0])
            tensor = self.zeros.tensors[0]
            raise CheckpointError(
                f"{tensor.file.path}: tensor {tensor} has the zero point {zeros[row, column]} at output row {start + row}, "
                f"group {column}, but the config says that there are none, which means {MIDDLE}; set zero_point to true, or "
                "fetch the checkpoint again"
            )
        return self.codes.read(start, stop)
