"""ModelOpt's INT4: two output rows in a byte, the even one in the low nibble, in two's complement."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbit.formats.folder.packing import sign_extend
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array


@dataclass(frozen=True, slots=True)
class RowPairs:
    """uint8 [N / 2, K] as int8 codes [N, K]."""

    tensor: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        first = start // 2
        packed = self.tensor.rows(first, -(-stop // 2))
        codes = np.empty((len(packed), 2, packed.shape[1]), np.uint8)
        codes[:, 0], codes[:, 1] = packed & 15, packed >> 4
        rows = codes.reshape(-1, packed.shape[1])[start - 2 * first : stop - 2 * first]
        return sign_extend(np.ascontiguousarray(rows), 4)


def pack_row_pairs(codes: Array) -> Array:
    nibbles = codes.view(np.uint8) & np.uint8(15)
    packed: Array = nibbles[0::2] | (nibbles[1::2] << np.uint8(4))
    return packed
