"""AWQ's versions for products with one vector: codes along K, groups filled up to whole words of zero points.

gemv        qweight i32 [N, K/8]    qzeros i32 [N, Z]      scales f [N, 8 Z]; all in sequence
gemv_fast   qweight i16 [N/4, K]    qzeros f [8 Z, N]      scales f [8 Z, N]; w = q * scale + qzero, codes shuffled by 64 x 4
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbit.formats.awq.config import Settings
from fewbit.formats.awq.decode import MiddleZeros
from fewbit.formats.folder.parts import Columns, PackedRows, Part, Rows
from fewbit.formats.folder.resolve import Module, Resolved
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.schemes.arrays import Array
from fewbit.spec.dtype import I4, U4
from fewbit.spec.granularity import CHANNEL, Granularity, group
from fewbit.spec.scheme import Scheme

FLOATS = ("F16", "BF16", "F32")
INTERLEAVE, STRIDE = 4, 64


def gemv(module: Module, settings: Settings, rule: str) -> Resolved:
    qweight = module.need("qweight", rule, "I32", "U32")
    if len(qweight.shape) != 2:
        module.wrong(qweight, f"a matrix of words that hold 4-bit codes ({rule})")
    n, k = qweight.shape[0], qweight.shape[1] * 8
    groups, width = _widths(module, settings, k, rule)
    scales = module.need("scales", rule, *FLOATS, shape=(n, width * 8))
    qzeros = module.need("qzeros", rule, "I32", "U32", shape=(n, width))
    zeros = PackedRows(qzeros, 4, groups)
    parts: dict[str, Part] = {"scale": First(Rows(scales), groups)}
    if settings.zero_point:
        parts = {"codes": PackedRows(qweight, 4, k), **parts, "zero_point": zeros}
        scheme = Scheme(U4, _shared(settings), scale=scales.dtype, zero_point=U4)
    else:
        parts = {"codes": MiddleZeros(PackedRows(qweight, 4, k, "offset"), zeros), **parts}
        scheme = Scheme(I4, _shared(settings), scale=scales.dtype)
    return Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule)


def gemv_fast(module: Module, settings: Settings, rule: str) -> Resolved:
    qweight = module.need("qweight", rule, "I16", "U16")
    if len(qweight.shape) != 2 or qweight.shape[1] % STRIDE:
        module.wrong(
            qweight, f"a matrix of words that hold four 4-bit codes, {STRIDE} at a time along K ({rule})"
        )
    n, k = qweight.shape[0] * INTERLEAVE, qweight.shape[1]
    groups, width = _widths(module, settings, k, rule)
    if not settings.zero_point:
        module.fail(f"is of the version gemv_fast ({rule}), which has zero points, but zero_point is false")
    scales = module.need("scales", rule, *FLOATS, shape=(width * 8, n))
    qzeros = module.need("qzeros", rule, *FLOATS, shape=(width * 8, n))
    scheme = Scheme(U4, _shared(settings), scale=scales.dtype, offset=qzeros.dtype)
    parts: dict[str, Part] = {
        "codes": Shuffled(qweight), "scale": First(Columns(scales), groups), "offset": First(Columns(qzeros), groups),
    }  # fmt: skip
    return Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule)


@dataclass(frozen=True, slots=True)
class First:
    """The first columns of a part; the rest fills it up."""

    part: Part
    count: int

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return self.part.tensors

    def read(self, start: int, stop: int) -> Array:
        return np.ascontiguousarray(self.part.read(start, stop)[:, : self.count])


@dataclass(frozen=True, slots=True)
class Shuffled:
    """gemv_fast's codes: four rows share the words of 64 columns, whose codes lie as 32-bit registers are unpacked fastest."""

    tensor: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        first = start // INTERLEAVE
        words = self.tensor.rows(first, -(-stop // INTERLEAVE)).view(np.uint16)
        rows = unshuffle(words)
        return np.ascontiguousarray(rows[start - first * INTERLEAVE : stop - first * INTERLEAVE])


def unshuffle(words: Array) -> Array:
    """uint8 [4 R, K] from u16 [R, K]."""
    count, k = words.shape
    shifts = np.arange(0, 16, 4, dtype=np.uint16)
    nibbles = ((words[..., None] >> shifts) & np.uint16(15)).astype(np.uint8)
    rows = nibbles.reshape(count, k // STRIDE, INTERLEAVE, STRIDE).transpose(0, 2, 1, 3)
    in_pairs = rows.reshape(-1, k // 32, 4, 2, 4).transpose(0, 1, 2, 4, 3)
    out: Array = in_pairs.transpose(0, 1, 3, 2, 4).reshape(count * INTERLEAVE, k)
    return out


def shuffle(codes: Array) -> Array:
    """The inverse: u16 [N/4, K]."""
    n, k = codes.shape
    in_pairs = codes.reshape(n, k // 32, 4, 4, 2).transpose(0, 1, 3, 2, 4)
    rows = in_pairs.transpose(0, 1, 2, 4, 3).reshape(n // INTERLEAVE, INTERLEAVE, k // STRIDE, STRIDE)
    nibbles = rows.transpose(0, 2, 1, 3).reshape(n // INTERLEAVE, k, INTERLEAVE).astype(np.uint16)
    words: Array = np.bitwise_or.reduce(nibbles << np.arange(0, 16, 4, dtype=np.uint16), axis=-1)
    return words


def width_of(k: int, length: int) -> int:
    """Words of zero points of a row: AutoAWQ fills them up for the loads of its kernel, the more the smaller the groups."""
    multiple = {32: 4, 64: 2}.get(length, 1)
    words = -(-(k // length) // 8)
    return -(-words // multiple) * multiple


def _widths(module: Module, settings: Settings, k: int, rule: str) -> tuple[int, int]:
    length = k if settings.group_size == -1 else settings.group_size
    if k % length:
        module.fail(
            f"has K={k}, no multiple of its group size {length} ({rule}); the config does not fit the tensors"
        )
    return k // length, width_of(k, length)


def _shared(settings: Settings) -> Granularity:
    return CHANNEL if settings.group_size == -1 else group(settings.group_size)
