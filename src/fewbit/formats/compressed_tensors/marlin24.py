"""2:4 sparse integers in the order of the Marlin kernel (older files): two of four weights kept, in tiles of 16 x 64.

weight_packed  i32 [K / 32, N * bits / 2]  the kept codes, 16 of K to a row, unsigned by adding 2^(bits-1), shuffled in runs of 1024
meta           i16 [K / 32, 2 N]           four quads a word: at which two of its columns a quad's codes belong
scale_packed   f16 [G, N]                  shuffled in runs of 64 where a group is shorter than the K / 2 kept (as its writer compares)

64 output rows lie in 64 consecutive places of each, so that rows can be cut at multiples of 64 before anything is unshuffled.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import numpy as np

from fewbit.formats.compressed_tensors.activations import input_quant
from fewbit.formats.compressed_tensors.config import Group
from fewbit.formats.compressed_tensors.scales import granularity_of
from fewbit.formats.folder.packing import signed
from fewbit.formats.folder.parts import Columns, Part
from fewbit.formats.folder.resolve import Claim, Module, Resolved
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.unpack import unpack_codes
from fewbit.schemes.arrays import Array
from fewbit.spec.dtype import dtype
from fewbit.spec.layer_quant import LayerQuant
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import Scheme

LEAVES = ("scale_packed", "meta")
ROWS = 64  # of the weight, that are shuffled together
_SCALES = (
    np.arange(ROWS).reshape(8, 2, 4).swapaxes(1, 2).reshape(-1)
)  # place to row: 0 4 1 5 2 6 3 7 of each eight
_INTERLEAVED = {4: (0, 2, 4, 6, 1, 3, 5, 7), 8: (0, 2, 1, 3)}


def read_marlin24(module: Module, group: Group, rule: str) -> Iterator[Claim]:
    args = group.weights
    if args is None or args.is_float or not args.symmetric or args.bits not in _INTERLEAVED:
        module.fail(f"is stored as marlin-24, but {rule} does not say symmetric integers of 4 or 8 bits")
    packed, meta = module.need("weight_packed", rule, "I32"), module.need("meta", rule, "I16")
    if len(packed.shape) != 2 or packed.shape[1] % (ROWS * args.bits // 2):
        module.wrong(packed, f"words of {args.bits}-bit codes of a multiple of {ROWS} output rows")
    n, k = packed.shape[1] * 2 // args.bits, packed.shape[0] * 32
    module.get("meta", shape=(k // 32, 2 * n))
    granularity = granularity_of(module, args, n, k)
    if granularity.sharing not in ("channel", "group"):
        module.fail(f"has scales by {granularity.sharing}, expected by channel or group ({rule})")
    groups = granularity.scale_shape(n, k)[1]
    scale = module.need("scale_packed", rule, "F16", "BF16", shape=(groups, n))
    mask = Kept24(meta)
    parts: dict[str, Part] = {
        "codes": Codes24(packed, mask, args.bits),
        "scale": ShuffledScales(scale) if granularity.k * 2 < k and groups > 1 else Columns(scale),
        "mask": mask,
    }
    inputs, claims = input_quant(module, group.inputs, rule)
    yield from claims
    scheme = Scheme(dtype(f"i{args.bits}"), granularity, scale=scale.dtype, mask=True)
    yield Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule, LayerQuant(input_quant=inputs))


@dataclass(frozen=True, slots=True)
class Kept24:
    """The mask that `meta` says."""

    tensor: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def columns(self, first: int, last: int) -> Array:
        """uint8 [rows, K / 4, 2]: which two of each four columns; `first` and `last` are multiples of 64."""
        words = np.ascontiguousarray(self.tensor.columns(2 * first, 2 * last)).view(np.uint16)
        row, column = np.arange(ROWS)[:, None], np.arange(2)[None, :]
        place = row % 2 * 2 + row % 8 // 4 + row % 4 // 2 * 32 + row // 8 * 4
        swap = (column == 1).astype(int) - place % 2  # 1 up and left, -1 down and right
        blocks = words.reshape(len(words), -1, ROWS, 2)[:, :, place + swap, column - swap]
        quads = unpack_codes(np.ascontiguousarray(blocks.transpose(1, 2, 0, 3)), 2, 16)
        return quads.reshape(last - first, -1, 2)

    def read(self, start: int, stop: int) -> Array:
        first = start // ROWS * ROWS
        at = self.columns(first, -(-stop // ROWS) * ROWS)[start - first : stop - first]
        if len(wrong := np.argwhere(at[..., 0] == at[..., 1])):
            row, quad = (int(i) for i in wrong[0])
            raise CheckpointError(
                f"{self.tensor.file.path}: tensor {self.tensor} keeps a column twice in row {start + row} at column {4 * quad}, "
                "expected two of four; the checkpoint is broken"
            )
        mask: Array = np.zeros((*at.shape[:2], 4), np.uint8)
        np.put_along_axis(mask, at.astype(np.int64), np.uint8(1), axis=2)
        return mask.reshape(stop - start, -1)


@dataclass(frozen=True, slots=True)
class Codes24:
    tensor: DiskTensor
    mask: Kept24
    bits: int

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor, self.mask.tensor)

    def read(self, start: int, stop: int) -> Array:
        first, last = start // ROWS * ROWS, -(-stop // ROWS) * ROWS
        words = self.tensor.columns(first * self.bits // 2, last * self.bits // 2)
        count = (last - first) * 16
        shuffled = unpack_codes(words, self.bits, count).reshape(-1, 1024)
        ordered = np.empty_like(shuffled)
        ordered[:, _places(self.bits)] = shuffled
        tiles = ordered.reshape(len(words), -1, 16, 16)  # K, N, 16 of K, 16 of N
        kept: Array = tiles.transpose(1, 3, 0, 2).reshape(last - first, -1, 2)
        codes: Array = np.zeros((last - first, kept.shape[1], 4), np.int8)
        at = self.mask.columns(first, last).astype(np.int64)
        np.put_along_axis(codes, at, signed(kept, self.bits), axis=2)
        return np.ascontiguousarray(codes.reshape(last - first, -1)[start - first : stop - first])


@dataclass(frozen=True, slots=True)
class ShuffledScales:
    tensor: DiskTensor

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (self.tensor,)

    def read(self, start: int, stop: int) -> Array:
        first, last = start // ROWS * ROWS, -(-stop // ROWS) * ROWS
        stored = self.tensor.columns(first, last).T.reshape(-1, ROWS, self.tensor.shape[0])
        rows = np.empty_like(stored)
        rows[:, _SCALES] = stored
        return np.ascontiguousarray(rows.reshape(last - first, -1)[start - first : stop - first])


@cache
def _places(bits: int) -> Array:
    """[1024]: where in four tiles of 16 x 16 the code at each place belongs, as the threads of a tensor core hold them."""
    thread, part, block, step = np.ogrid[:32, :4, :2, :4]
    column = thread // 4
    row = 2 * (thread % 4 + step // 2 * 4) + step % 2
    places = 16 * row + column // 2 * 256 + 8 * (column % 2) + 4 * block + part
    order = _INTERLEAVED[bits]
    shuffled: Array = places.reshape(-1, len(order))[:, order].reshape(-1)
    return shuffled
