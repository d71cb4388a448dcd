"""AQLM's codes: unsigned numbers of some bits, held in the signed type that fits them, so that large ones are negative."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbit.formats.folder.parts import Blocked
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array
from fewbit.spec.refusal import CheckpointError


@dataclass(frozen=True, slots=True)
class Codes:
    """[N / rows, K / run, books], as unsigned numbers below 2^bits."""

    tensor: DiskTensor
    bits: int
    rows: int

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        stored = Blocked(self.tensor, self.rows).read(start, stop)
        codes: Array = stored.view(f"u{stored.itemsize}")
        if self.bits in (8, 16):
            return codes
        outside = (stored < -(1 << (self.bits - 1))) | (stored >= 1 << self.bits)
        if outside.any():
            at = tuple(int(i) for i in np.argwhere(outside)[0])
            raise CheckpointError(
                f"{self.tensor.file.path}: tensor {self.tensor} holds {stored[at]} in tile row {start // self.rows + at[0]}, "
                f"which is no code of {self.bits} bits; the checkpoint is broken"
            )
        masked: Array = codes & codes.dtype.type((1 << self.bits) - 1)
        return masked
