"""Compact declaration of a family of rows: one call gives a row for each scheme x instruction set, as plain data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fewbit.registry.grammar import KernelName
from fewbit.spec.cell import KernelRow
from fewbit.spec.features import ISAS

NO_SCHEME: Mapping[str, tuple[str, ...]] = {"": ()}
PLAIN: Mapping[str, tuple[str, ...]] = {"f32": (), "f16": (), "bf16": ()}
GROUP32: Mapping[str, tuple[str, ...]] = {
    "i4g32": ("f16",),
    "u4g32o": ("f16",),
    "i5g32": ("f16",),
    "u5g32o": ("f16",),
    "i8g32": ("f16",),
}
TWO_LEVEL: Mapping[str, tuple[str, ...]] = {
    "u2g16ot": ("u4",),
    "i3g16t": ("i6",),
    "u4g32ot": ("u6",),
    "u5g32ot": ("u6",),
    "i6g16t": ("i8",),
}
_INTEGER_SCALES = ("f16", "bf16", "f32")
_SHORT_SCALES = (
    "f16",
    "bf16",
)  # times a code or a zero point, they fit in f32: a fused decode then rounds as the scheme does


def _integers(bits: int) -> dict[str, tuple[str, ...]]:
    groups = ("g32", "g64", "g128", "channel")
    return {
        **{f"i{bits}{group}": _INTEGER_SCALES for group in groups},
        **{f"{sign}{bits}{group}z": _SHORT_SCALES for sign in "iu" for group in groups},
        **{f"u{bits}{group}o": _SHORT_SCALES for group in groups[:3]},
    }


def _offsets(bits: int) -> dict[str, tuple[str, ...]]:
    return {f"u{bits}{group}o": _SHORT_SCALES for group in ("g32", "g64", "g128")}


PARTS: Mapping[str, tuple[str, ...]] = {
    **{name: scales for bits in (2, 3, 4, 8) for name, scales in _integers(bits).items()},
    **{name: scales for bits in (5, 6) for name, scales in _offsets(bits).items()},
    "i8g32": ("bf16", "f32", "e8m0"),  # what n32k32 does not hold
    "i4g32": ("bf16", "f32"),
    "u4g32o": ("bf16",),
    "u5g32o": ("bf16",),
    **{f"{code}{shared}": _INTEGER_SCALES for code in ("e4m3", "e5m2") for shared in ("tensor", "channel")},
    "e4m3b128x128": ("f32", "bf16", "e8m0"),
    "e4m3g32": ("e8m0",),
    "e5m2g32": ("e8m0",),
    "e2m1g32": ("e8m0",),
    "e2m1g16s": ("e4m3",),
    "e2m1g16t": ("e4m3",),
    **{f"u4{group}c": ("f32",) for group in ("g32", "g64", "g128")},
}
"""Schemes by name, with the types of their scale part (the sub-scale of a two-level scheme) that the kernels read."""

INTEGERS: Mapping[str, tuple[str, ...]] = {
    name: scales for name, scales in PARTS.items() if name[0] in "iu" and not name.endswith("c")
}
"""Those of PARTS whose codes are whole numbers."""


def family(
    op: str,
    *,
    isas: Iterable[str],
    schemes: Mapping[str, tuple[str, ...]] = NO_SCHEME,
    activation: str = "",
    layout: str = "",
    emulates: str = "",
    **fields: Any,
) -> tuple[KernelRow, ...]:
    """Rows of a kernel folder. Name, requires and priority come from the instruction set (the stem of the C++ file).

    emulates   an instruction set: the rows then run on `isas` the algorithm of that set's rows, for tests only, and are
               named `..._<emulates>_emulated`
    fields     of KernelRow: m_range, phase, constraints, exactness, result_class; backend, priority or requires to differ
    """
    rows = []
    for isa in (ISAS[name] for name in isas):
        for scheme, scale_dtypes in schemes.items():
            name = KernelName(op, scheme, activation, layout, emulates or isa.name, bool(emulates))
            values: dict[str, Any] = {
                "name": str(name),
                "op": op,
                "backend": "reference" if isa.name == "reference" else "cpu",
                "activation": activation,
                "scheme": scheme,
                "scale_dtypes": scale_dtypes,
                "layout": layout,
                "requires": isa.requires,
                "priority": isa.priority,
                "emulates": str(KernelName(op, scheme, activation, layout, emulates)) if emulates else "",
            }
            rows.append(KernelRow(**(values | fields)))
    return tuple(rows)
