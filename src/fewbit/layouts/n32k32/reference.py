"""pack and its inverse in numpy: they define the layout; `layout.py` draws it."""

from __future__ import annotations

import numpy as np

from fewbit.layouts.n32k32.layout import PANEL, PLANES, SUB_BLOCK, bias, blocks, part_bytes
from fewbit.schemes.arrays import Array, array_dtype, empty_parts
from fewbit.spec.layout import Layout
from fewbit.spec.scheme import QuantTensor

LANES = 16


def pack(tensor: QuantTensor, layout: Layout) -> Array:
    """uint8 [packed_bytes]."""
    n, k = tensor.shape
    count = blocks(layout, k)
    if not n * k:
        return np.empty(0, np.uint8)
    sections = []
    for role, size in part_bytes(layout).items():
        part: Array = tensor.parts[role]
        if role == "codes":
            section = _pack_codes(_pad(part, count * layout.block_k), layout)
        else:
            padded = _pad(part, part.shape[1])  # [N, per block x blocks] -> [panel, block, per block, 32 n]
            section = padded.reshape(-1, PANEL, count, part.shape[1] // count).transpose(0, 2, 3, 1)
        as_bytes = np.ascontiguousarray(section).view(np.uint8)
        sections.append(as_bytes.reshape(-(-n // PANEL), count, size))
    packed: Array = np.concatenate(sections, axis=2).reshape(-1)
    return packed


def unpack(packed: Array, layout: Layout, n: int, k: int) -> QuantTensor:
    """The canonical parts of the unpadded n x k weight."""
    scheme, count, panels = layout.scheme, blocks(layout, k), -(-n // PANEL)
    if not n * k:
        return QuantTensor(scheme, (n, k), empty_parts(scheme, n, k))
    shapes, types = scheme.part_shapes(n, k), scheme.part_dtypes()
    sizes = part_bytes(layout)
    by_block = packed.reshape(panels, count, sum(sizes.values()))
    parts: dict[str, Array] = {}
    start = 0
    for role, size in sizes.items():
        raw = np.ascontiguousarray(by_block[:, :, start : start + size])
        start += size
        if role == "codes":
            parts[role] = np.ascontiguousarray(_unpack_codes(raw, layout)[:n, :k])
        else:
            items = raw.reshape(-1).view(array_dtype(types[role])).reshape(panels, count, -1, PANEL)
            rows = items.transpose(0, 3, 1, 2).reshape(panels * PANEL, count * items.shape[2])
            parts[role] = np.ascontiguousarray(rows[:n, : shapes[role][1]])
    return QuantTensor(scheme, (n, k), parts)


def _pad(part: Array, columns: int) -> Array:
    n, k = part.shape
    return np.pad(part, ((0, -n % PANEL), (0, columns - k)))


def _pack_codes(codes: Array, layout: Layout) -> Array:
    """[N, K] -> u32 [panel, sub-block, words]."""
    bits = layout.scheme.codes.bits
    unsigned = codes.view(f"u{codes.itemsize}").astype(np.uint32) + np.uint32(bias(layout.scheme))
    if bits < 8:
        unsigned &= np.uint32((1 << bits) - 1)  # i4 as int8: the sign bits above the code wrap away
    return pack_codes(unsigned, bits)


def pack_codes(unsigned: Array, bits: int) -> Array:
    """u32 [N, K], N and K multiples of 32 -> u32 [panel, sub-block, words]."""
    fields = unsigned.reshape(-1, 2, LANES, unsigned.shape[1] // SUB_BLOCK, SUB_BLOCK).transpose(
        0, 3, 1, 4, 2
    )
    planes, low = [], 0  # fields: [panel, sub-block, half, k, lane]
    for width in PLANES[bits]:
        plane = (fields >> np.uint32(low)) & np.uint32((1 << width) - 1)
        by_word = plane.reshape(*plane.shape[:3], width, 32 // width, LANES) << _shifts(width)[:, None]
        planes.append(np.bitwise_or.reduce(by_word, axis=4).reshape(*plane.shape[:2], 2 * width * LANES))
        low += width
    words: Array = np.concatenate(planes, axis=2)
    return words


def _unpack_codes(raw: Array, layout: Layout) -> Array:
    """uint8 [panel, block, bytes of the codes] -> codes [padded N, padded K]."""
    element = layout.scheme.codes
    columns = raw.shape[1] * layout.block_k
    words = raw.reshape(-1).view(np.uint32)
    codes = unpack_codes(words, element.bits, columns) - np.uint32(bias(layout.scheme))
    stored = array_dtype(element)
    return codes.astype(f"u{stored.itemsize}").view(stored)


def unpack_codes(words: Array, bits: int, columns: int) -> Array:
    """u32 words of whole panels -> u32 [padded N, columns]."""
    words = words.reshape(-1, columns // SUB_BLOCK, bits * 2 * LANES)
    panels = words.shape[0]
    fields = np.zeros((panels, columns // SUB_BLOCK, 2, SUB_BLOCK, LANES), np.uint32)
    low = start = 0
    for width in PLANES[bits]:
        size = 2 * width * LANES
        plane = words[:, :, start : start + size].reshape(*fields.shape[:3], width, 1, LANES)
        spread = (plane >> _shifts(width)[:, None]) & np.uint32((1 << width) - 1)
        fields |= spread.reshape(fields.shape) << np.uint32(low)
        low, start = low + width, start + size
    codes: Array = fields.transpose(0, 2, 4, 1, 3).reshape(panels * PANEL, columns)
    return codes


def _shifts(width: int) -> Array:
    """Bit position of each of the 32/width consecutive k of a word."""
    k = np.arange(32 // width, dtype=np.uint32)
    field = (k % 2) * (16 // width) + k // 2 if width < 8 else k
    shifts: Array = (field * width).astype(np.uint32)
    return shifts
