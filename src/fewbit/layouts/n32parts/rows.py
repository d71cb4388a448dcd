"""Every part of a tensor by row, as layout n32parts has them: what its packing kernel takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbit.layouts.n32parts.layout import FORM_BYTES, Form, form
from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import values
from fewbit.spec.layout import Layout
from fewbit.spec.scheme import QuantTensor


@dataclass(frozen=True, slots=True)
class RowParts:
    """codes [n, k] one in a byte, scale and extra [n, groups], supers f32 [n]; None where the scheme has none."""

    codes: Array
    scale: Array
    extra: Array | None
    supers: Array | None


def row_parts(tensor: QuantTensor) -> RowParts:
    """Extras as they come: `center` is added to zero points as they are packed."""
    (n, _), parts = tensor.shape, tensor.parts
    extra = parts.get("zero_point", parts.get("offset"))
    supers = parts.get("super_scale", parts.get("global_scale"))
    return RowParts(
        codes=np.ascontiguousarray(parts["codes"]),
        scale=_by_row(tensor, parts["scale"]),
        extra=None if extra is None else _by_row(tensor, extra),
        supers=None if supers is None else np.broadcast_to(supers.reshape(-1), (n,)).astype(np.float32),
    )


def _by_row(tensor: QuantTensor, part: Array) -> Array:
    n, by = tensor.shape[0], tensor.scheme.granularity
    match by.sharing:
        case "tensor":
            part = np.repeat(part.reshape(1, 1), n, axis=0)
        case "block":
            part = np.repeat(part, by.n, axis=0)[:n]
    return np.ascontiguousarray(part)


def form_bytes(layout: Layout, k: int, codebook: Array | None) -> Array:
    """uint8 [128]; `codebook` of the tensor, where its scheme has one."""
    it: Form = form(layout, k)
    head = np.zeros(FORM_BYTES, np.uint8)
    head[:24].view(np.int32)[:] = (
        it.groups, it.group_shift, it.scale_kind, it.extra_kind, it.center, it.has_super,
    )  # fmt: skip
    if codebook is not None:
        head[64:].view(np.float32)[:] = codebook
    elif layout.scheme.codes.name == "e2m1":
        head[64:].view(np.float32)[:] = values("e2m1")
    return head
