"""A tensor in another scheme that means the same numbers, or the reason why there is none.

What shares a scale may only become smaller (a row's scale repeated for each of its groups), codes only wider, and every
part must be a number that the type of the new part holds. `prove` compares what both mean, to the bit.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fewbit.schemes.affine.reference import spread
from fewbit.schemes.arrays import Array, array_dtype
from fewbit.schemes.floats.table import narrow, nearest, values, widen
from fewbit.schemes.plain import reference as plain
from fewbit.schemes.reference import dequantize
from fewbit.spec.dtype import E4M3, DType
from fewbit.spec.granularity import Granularity
from fewbit.spec.scheme import QuantTensor, Scheme


class Inexact(Exception):
    """The scheme cannot hold these numbers; the text says which and where, and follows the tensor's name."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """w = (code - zero) * (scale * overall) + offset, the parts as f32 at their granularity; absent parts are None."""

    codes: Array
    element: DType
    shape: tuple[int, int]
    granularity: Granularity
    scale: Array
    zero: Array | None = None
    offset: Array | None = None
    overall: Array | None = None
    group_index: Array | None = None


def rewrite(tensor: QuantTensor, to: Scheme) -> QuantTensor:
    """The tensor in the scheme `to`; Inexact when a part does not fit. `variants` lists schemes that make sense."""
    if tensor.scheme == to:
        return tensor
    if to.is_plain:
        return _as_floats(tensor, to)
    numbers = _regrouped(_numbers(tensor), to.granularity)
    numbers = _float_codes(numbers, to) if to.codes.is_float else _integer_codes(numbers, to)
    return _stored(numbers, to)


def prove(source: QuantTensor, result: QuantTensor, start: int = 0) -> None:
    """Inexact unless both mean the same bits; `start`: the tensor's row with which they begin."""
    ours, theirs = (np.atleast_2d(dequantize(t)).view(np.uint32) for t in (source, result))
    if ours.shape != theirs.shape:
        raise Inexact(f"has the shape {list(ours.shape)} and became {list(theirs.shape)}")
    different = ours != theirs
    if different.any():
        row, column = (int(i) for i in np.argwhere(different)[0])
        was, became = (t.view(np.float32)[row, column] for t in (ours, theirs))
        raise Inexact(f"is {was!r} at [{start + row}, {column}] and would be {became!r} as {result.scheme}")


def _numbers(tensor: QuantTensor) -> Numbers:
    scheme, (n, k), parts = tensor.scheme, tensor.shape, tensor.parts
    types = scheme.part_dtypes()

    def number(role: str) -> Array | None:
        return widen(parts[role], types[role]) if role in types else None

    codes, element = parts["codes"], scheme.codes
    if not element.is_float:
        codes = codes.astype(np.int32)
    if scheme.codebook is not None:
        codes, element = _looked_up(codes, number("codebook"))
    scale, offset = number("scale"), number("offset")
    if scale is None or scheme.family:
        raise Inexact(f"has the scheme {scheme}, whose numbers are no codes with scales")
    if scheme.super_scale is not None:
        run = scheme.super_block // scheme.granularity.k
        scale = scale * np.repeat(parts["super_scale"].astype(np.float32), run, axis=1)[:, : scale.shape[1]]
        if offset is not None:
            above = np.repeat(parts["super_offset"].astype(np.float32), run, axis=1)[:, : offset.shape[1]]
            offset = -(offset * above)
    if scheme.mask and codes[parts["mask"] == 0].any():
        raise Inexact("has codes that are not 0 where its mask is 0")
    return Numbers(
        codes, element, (n, k), scheme.granularity, scale, number("zero_point"), offset, number("global_scale"),
        parts.get("group_index"),
    )  # fmt: skip


def _looked_up(codes: Array, book: Array | None) -> tuple[Array, DType]:
    """Codes of a codebook of whole numbers as those numbers."""
    assert book is not None
    whole = np.rint(book)
    if (whole != book).any() or np.abs(whole).max() > 127:
        raise Inexact("has a codebook of other than small whole numbers")
    numbers: Array = whole.astype(np.int32)[codes]
    return numbers, DType("i8", 8, "signed")


def _as_floats(tensor: QuantTensor, to: Scheme) -> QuantTensor:
    weight = dequantize(tensor)
    stored = plain.quantize(weight, to)
    back = plain.dequantize(stored)
    _same(back, weight, f"weight as {to}")
    return stored


def _regrouped(numbers: Numbers, to: Granularity) -> Numbers:
    if numbers.granularity == to:
        return numbers

    def split(part: Array) -> Array:
        return regroup(part, numbers.shape, numbers.granularity, to)

    return replace(
        numbers, granularity=to, scale=split(numbers.scale),
        zero=None if numbers.zero is None else split(numbers.zero),
        offset=None if numbers.offset is None else split(numbers.offset),
    )  # fmt: skip


def regroup(part: Array, shape: tuple[int, int], of: Granularity, to: Granularity) -> Array:
    """A part repeated for the smaller granules of `to`; ValueError when those are not smaller."""
    n, k = shape
    want = to.scale_shape(n, k)
    if of.sharing == "tensor":
        filled: Array = np.broadcast_to(part.reshape(1, 1), want).copy()
        return filled
    rows = part if of.sharing != "block" else np.repeat(part, of.n, axis=0)[:n]
    length = {"channel": k, "group": of.k, "block": of.k}.get(of.sharing, 0)
    run = {"channel": k, "group": to.k}.get(to.sharing, 0)
    if not length or not run or (length % run and length < k):
        raise ValueError(f"{of.sharing} {of} cannot be split into {to.sharing} {to}")
    columns: Array = np.repeat(rows, max(1, -(-min(length, k) // run)), axis=1)[:, : want[-1]]
    return np.ascontiguousarray(columns)


def _float_codes(numbers: Numbers, to: Scheme) -> Numbers:
    of = numbers.element
    if not of.is_float or numbers.zero is not None or numbers.offset is not None:
        raise Inexact(f"has the codes {of}, which are no {to.codes}")
    if of == to.codes:
        return numbers
    if of.name == "e4m3fnuz" and to.codes is E4M3:  # one code further from its bias: half the number
        if (numbers.codes == 0x7F).any() or (numbers.codes == 0xFF).any():
            raise Inexact("has numbers of e4m3fnuz whose codes are NaN in e4m3")
        return replace(numbers, element=to.codes, scale=numbers.scale * np.float32(0.5))
    wide = values(of.name)[numbers.codes]
    codes = nearest(wide, to.codes.name)
    _same(values(to.codes.name)[codes], wide, f"code as {to.codes}")
    return replace(numbers, codes=codes, element=to.codes)


def _integer_codes(numbers: Numbers, to: Scheme) -> Numbers:
    """Codes, zero points and offsets moved to where the scheme `to` has them."""
    (n, k), grain, of = numbers.shape, numbers.granularity, numbers.element
    if of.is_float:
        raise Inexact(f"has the codes {of}, which are no whole numbers")
    if to.offset is not None and numbers.offset is not None:
        return numbers
    zero = np.zeros_like(numbers.scale) if numbers.zero is None else numbers.zero
    if numbers.offset is not None:
        ratio = np.divide(
            -numbers.offset, numbers.scale, out=np.zeros_like(numbers.scale), where=numbers.scale != 0
        )
        zero = np.rint(ratio)
    shift = np.float32(to.codes.lowest - of.lowest)
    if to.zero_point is None and to.offset is None:
        if (zero != np.rint(zero)).any():
            raise Inexact("has zero points that are no whole numbers")
        codes = numbers.codes - spread(zero.astype(np.int32), n, k, grain, numbers.group_index)
        return replace(numbers, codes=codes, zero=None, offset=None)
    codes, zero = numbers.codes + np.int32(shift), zero + shift
    if to.offset is None:
        return replace(numbers, codes=codes, zero=zero, offset=None)
    return replace(numbers, codes=codes, zero=None, offset=-(zero * numbers.scale))


def _stored(numbers: Numbers, to: Scheme) -> QuantTensor:
    """The numbers in the types of the scheme's parts, each checked."""
    parts: dict[str, Array] = {}
    codes = numbers.codes
    if not to.codes.is_float:
        _in_range(codes, to.codes, "code")
    parts["codes"] = codes.astype(array_dtype(to.codes))
    scale, overall = numbers.scale, numbers.overall
    if overall is not None and to.global_scale is None:
        scale, overall = scale * overall, None
    assert to.scale is not None
    parts["scale"] = _exactly(scale, to.scale, "scale")
    if to.zero_point is not None:
        assert numbers.zero is not None
        parts["zero_point"] = _exactly(numbers.zero, to.zero_point, "zero point")
    if to.offset is not None:
        assert numbers.offset is not None
        parts["offset"] = _exactly(numbers.offset, to.offset, "offset")
    if to.global_scale is not None:
        one = np.ones(1, np.float32) if overall is None else overall
        parts["global_scale"] = _exactly(one, to.global_scale, "global scale")
    if numbers.group_index is not None:
        parts["group_index"] = numbers.group_index
    return QuantTensor(to, numbers.shape, parts)


def _exactly(part: Array, element: DType, what: str) -> Array:
    if element.is_float:
        stored = narrow(part, element)
        _same(widen(stored, element), part, f"{what} as {element}")
        return stored
    _in_range(part, element, what)
    if (np.rint(part) != part).any():
        raise Inexact(
            f"has the {what} {part[np.rint(part) != part][0]!r}, no whole number as {element} wants"
        )
    return part.astype(array_dtype(element))


def _in_range(part: Array, element: DType, what: str) -> None:
    low, high = (part.min(), part.max()) if part.size else (0, 0)
    if low < element.lowest or high > element.highest:
        wrong = low if low < element.lowest else high
        raise Inexact(
            f"has the {what} {wrong:g}, which {element} ({element.lowest} to {element.highest}) cannot hold"
        )


def _same(back: Array, wanted: Array, what: str) -> None:
    different = np.ascontiguousarray(back, np.float32).view(np.uint32) != np.ascontiguousarray(
        wanted, np.float32
    ).view(np.uint32)
    if different.any():
        at = tuple(np.argwhere(different)[0])
        raise Inexact(f"has a {what} that rounds: {wanted[at]!r} would be {back[at]!r}")
