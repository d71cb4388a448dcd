"""Codes whose zero point the config says is zero: proved for each row that is read, and then no part of the scheme."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.formats.folder.parts import Part
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array
from fewbit.spec.refusal import CheckpointError


@dataclass(frozen=True, slots=True)
class SymmetricCodes:
    codes: Part
    zeros: Part

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (*self.codes.tensors, *self.zeros.tensors)

    def read(self, start: int, stop: int) -> Array:
        if self.zeros.read(start, stop).any():
            tensor = self.zeros.tensors[0]
            raise CheckpointError(
                f"{tensor.file.path}: tensor {tensor} has a zero point other than 0 in the rows {start} to {stop - 1}, but the "
                "config says symmetric; set symmetric to false, or fetch the checkpoint again"
            )
        return self.codes.read(start, stop)
