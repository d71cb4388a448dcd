"""pack and its inverse in numpy: they define the layout; `layout.py` draws it."""

from __future__ import annotations

import numpy as np

from fewbit.layouts.n32k32.reference import pack_codes, unpack_codes
from fewbit.layouts.n32parts.layout import FORM_BYTES, PANEL, form, panel_parts
from fewbit.layouts.n32parts.rows import form_bytes, row_parts
from fewbit.schemes.arrays import Array, array_dtype
from fewbit.spec.layout import Layout
from fewbit.spec.scheme import QuantTensor


def pack(tensor: QuantTensor, layout: Layout) -> Array:
    """uint8 [packed_bytes]."""
    n, k = tensor.shape
    rows, it, at = row_parts(tensor), form(layout, k), panel_parts(layout, k)
    panels = -(-n // PANEL)
    packed = np.zeros((panels, at.bytes), np.uint8)
    codes = (_padded(rows.codes).astype(np.int32) + it.center).astype(np.uint32)
    codes[n:] = 0
    packed[:, : at.scales] = pack_codes(codes, layout.scheme.codes.bits).reshape(panels, -1).view(np.uint8)
    _put(packed, at.scales, _padded(rows.scale))
    if rows.extra is not None:
        extra = _padded(rows.extra)
        if layout.scheme.zero_point:
            extra = (extra.astype(np.int32) + it.center).astype(np.uint8)
            extra[n:] = 0
        _put(packed, at.extras, extra)
    if rows.supers is not None:
        _put(packed, at.supers, _padded(rows.supers[:, None]))
    return np.concatenate([form_bytes(layout, k, tensor.parts.get("codebook")), packed.reshape(-1)])


def unpack(packed: Array, layout: Layout, n: int, k: int) -> QuantTensor:
    """The canonical parts of the unpadded n x k weight; what rows share is taken from the first of them."""
    it, at, scheme = form(layout, k), panel_parts(layout, k), layout.scheme
    panels = packed[FORM_BYTES:].reshape(-1, at.bytes)
    words = np.ascontiguousarray(panels[:, : at.scales]).view(np.uint32)
    codes = unpack_codes(words, scheme.codes.bits, k)[:n].astype(np.int32) - it.center
    types = scheme.part_dtypes()

    def take(start: int, role: str) -> Array:
        rows = _take(panels, start, it.groups, array_dtype(types[role]), n)
        by = scheme.granularity
        return rows[0] if by.sharing == "tensor" else rows[:: by.n] if by.sharing == "block" else rows

    parts = {"codes": codes.astype(array_dtype(scheme.codes)), "scale": take(at.scales, "scale")}
    if scheme.zero_point:
        stored = _take(panels, at.extras, it.groups, np.dtype(np.uint8), n).astype(np.int32) - it.center
        parts["zero_point"] = stored.astype(array_dtype(scheme.zero_point))
    if scheme.offset:
        parts["offset"] = take(at.extras, "offset")
    if it.has_super:
        supers = _take(panels, at.supers, 1, np.dtype(np.float32), n)
        parts.update({"super_scale": supers} if scheme.super_scale else {"global_scale": supers[0]})
    if scheme.codebook:
        parts["codebook"] = packed[64:FORM_BYTES].view(np.float32).copy()
    return QuantTensor(scheme, (n, k), parts)


def _padded(part: Array) -> Array:
    return np.pad(part, ((0, -len(part) % PANEL), (0, 0)))


def _put(packed: Array, start: int, part: Array) -> None:
    """[N, groups] -> [panel][group][32 rows] from byte `start` of each panel."""
    lanes = part.reshape(len(packed), PANEL, -1).transpose(0, 2, 1)
    as_bytes = np.ascontiguousarray(lanes).view(np.uint8).reshape(len(packed), -1)
    packed[:, start : start + as_bytes.shape[1]] = as_bytes


def _take(panels: Array, start: int, groups: int, element: np.dtype, n: int) -> Array:
    size = groups * PANEL * element.itemsize
    lanes = np.ascontiguousarray(panels[:, start : start + size]).view(element).reshape(-1, groups, PANEL)
    return np.ascontiguousarray(lanes.transpose(0, 2, 1).reshape(-1, groups)[:n])
