"""GPTQ's words to codes and zero points.

Version 1 stores zero points less one, subtracted from whole words at 2, 4 and 8 bits: where a zero point was 0, the borrow
ran into the next field, and only the addition to the whole word undoes that. At 3 bits each field wraps by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from fewbit.formats.folder.packing import add_to_words
from fewbit.formats.folder.parts import PackedAcross, PackedDown, Part
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.gptq.config import Settings
from fewbit.schemes.arrays import Array
from fewbit.spec.refusal import CheckpointError

PLANES: dict[int, tuple[int, ...]] = {3: (2, 1), 5: (4, 1), 6: (4, 2), 7: (4, 2, 1)}
"""Of gptq_p: widths that do not divide a word are split into planes that do, the low bits first."""


def planes_of(settings: Settings) -> tuple[int, ...]:
    return PLANES.get(settings.bits, ()) if settings.planar else ()


def code_part(qweight: DiskTensor, settings: Settings, k: int) -> Part:
    sign = "offset" if settings.sym else "none"
    return PackedDown(qweight, settings.bits, k, sign, planes_of(settings))


def zero_part(qzeros: DiskTensor, settings: Settings) -> Part:
    bits = settings.bits
    if settings.version == 2:
        return PackedAcross(qzeros, bits, planes=planes_of(settings))
    if 32 % bits == 0:
        return PackedAcross(qzeros, bits, fix=partial(add_to_words, bits=bits, step=1))
    return PackedAcross(qzeros, bits, fix_codes=partial(_next, mask=(1 << bits) - 1))


def _next(codes: Array, mask: int) -> Array:
    following: Array = (codes + np.uint8(1)) & np.uint8(mask)
    return following


@dataclass(frozen=True, slots=True)
class SymmetricCodes:
    """Codes whose zero point is the middle everywhere: proved for each row that is read, and then no part of the scheme."""

    codes: Part
    qweight: DiskTensor
    qzeros: DiskTensor
    zeros: Part
    bits: int

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.qweight, self.qzeros)

    def read(self, start: int, stop: int) -> Array:
        zeros, middle = self.zeros.read(start, stop), 1 << (self.bits - 1)
        if (zeros != middle).any():
            row, column = (int(i) for i in np.argwhere(zeros != middle)[0])
            raise CheckpointError(
                f"{self.qzeros.file.path}: tensor {self.qzeros} has the zero point {zeros[row, column]} at output row {start + row}, "
                f"group {column}, but the config says sym, which means {middle}; set sym to false, or fetch the checkpoint again"
            )
        return self.codes.read(start, stop)
