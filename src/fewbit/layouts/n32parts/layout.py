"""Layout n32parts: W[N,K] as panels of 32 rows; in a panel, the codes of all K, then its scales, then what else the scheme has.

    weight   | form, 128 bytes | panel 0 | panel 1 | ...                    K a multiple of 32, N padded to 32 with zeros
    form     i32 groups of a row, log2 of a group's 32-k runs, type of scale, kind of extra, center, whether supers are there;
             from byte 64: f32 table[16]
    panel    | codes | scales | extras | supers |                           each at a multiple of 64 bytes
    codes    runs of 32 k as in layout n32k32; integers stored unsigned: signed ones plus `center`, 2^(bits-1)
    scales   [groups][32 rows] as the scheme has them; one of the tensor, or of a 2-D block, is repeated for its rows
    extras   [groups][32 rows]: zero points as u8 (plus `center` as well), or offsets of the scales' type
    supers   f32 [32 rows]: the factor of all scales of a row; a global scale is repeated

So one kernel of each kind of code serves every group and every type of scale: they are read from the form.
"""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.spec.dtype import BF16, E4M3, E8M0, F16, F32, DType
from fewbit.spec.layout import Layout
from fewbit.spec.scheme import Scheme

NAMES = ("n32parts",)
PANEL, RUN = 32, 32
FORM_BYTES = 128
SCALE_KINDS: tuple[DType, ...] = (F16, BF16, F32, E8M0, E4M3)
NO_EXTRA, ZERO_POINT, OFFSET = range(3)
ALL_OF_K = 31  # group_shift of one group


@dataclass(frozen=True, slots=True)
class Form:
    """What stands at the head of a packed weight, but for the table."""

    groups: int
    group_shift: int
    scale_kind: int
    extra_kind: int
    center: int
    has_super: bool


@dataclass(frozen=True, slots=True)
class PanelParts:
    """Byte of a panel where each part begins, and the panel's size."""

    scales: int
    extras: int
    supers: int
    bytes: int


def layout(name: str, scheme: Scheme) -> Layout:
    if name not in NAMES or not _holds(scheme):
        raise ValueError(f"layout {name} does not hold scheme {scheme}")
    return Layout(name, scheme, PANEL, RUN)


def _holds(scheme: Scheme) -> bool:
    codes, by = scheme.codes, scheme.granularity
    if scheme.family or scheme.group_index or scheme.mask or scheme.scale not in SCALE_KINDS:
        return False
    if by.sharing not in ("tensor", "channel", "group", "block"):
        return False
    table = bool(scheme.codebook) or codes.name == "e2m1"
    run = by.k if by.sharing in ("group", "block") else RUN
    if (run != 16 and run & (run - 1)) or run < (16 if table else RUN):
        return False
    if table:
        return codes.bits == 4 and not (scheme.zero_point or scheme.offset) and scheme.codebook in (None, F32)
    if codes.is_float:
        return codes.name in ("e4m3", "e5m2") and not (scheme.zero_point or scheme.offset)
    zero = scheme.zero_point
    whole_zero = zero is None or (not zero.is_float and zero.bits <= 8 and scheme.scale in (F16, BF16))
    offset = scheme.offset is None or (scheme.offset == scheme.scale and scheme.scale in (F16, BF16))
    return codes.bits in (2, 3, 4, 5, 6, 8) and whole_zero and offset


def form(layout: Layout, k: int) -> Form:
    scheme = layout.scheme
    by = scheme.granularity
    if k % RUN:
        raise ValueError(f"K={k} is not a multiple of {RUN}, the run of layout {layout.name}")
    if scheme.super_block and scheme.super_block < k:
        raise ValueError(
            f"layout {layout.name} holds one super scale a row, not one for {scheme.super_block} of K={k}"
        )
    grouped = by.sharing in ("group", "block")
    extra = ZERO_POINT if scheme.zero_point else OFFSET if scheme.offset else NO_EXTRA
    assert scheme.scale
    return Form(
        groups=-(-k // by.k) if grouped else 1,
        group_shift=max((by.k // RUN).bit_length() - 1, 0) if grouped else ALL_OF_K,
        scale_kind=SCALE_KINDS.index(scheme.scale),
        extra_kind=extra,
        center=-scheme.codes.lowest if scheme.codes.kind == "signed" else 0,
        has_super=bool(scheme.super_scale or scheme.global_scale),
    )


def panel_parts(layout: Layout, k: int) -> PanelParts:
    it, element = form(layout, k), layout.scheme.scale
    assert element
    lanes, scale_bytes = it.groups * PANEL, element.bits // 8
    extra_bytes = (0, 1, scale_bytes)[it.extra_kind]
    scales = k // RUN * PANEL * layout.scheme.codes.bits * RUN // 8
    extras = scales + _aligned(lanes * scale_bytes)
    supers = extras + _aligned(lanes * extra_bytes)
    return PanelParts(scales, extras, supers, supers + (4 * PANEL if it.has_super else 0))


def packed_bytes(layout: Layout, n: int, k: int) -> int:
    """The form included."""
    return FORM_BYTES + -(-n // PANEL) * panel_parts(layout, k).bytes


def _aligned(count: int) -> int:
    return -(-count // 64) * 64
