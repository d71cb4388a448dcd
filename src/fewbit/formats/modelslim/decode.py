"""4-bit values in bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array
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
