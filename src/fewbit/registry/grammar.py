"""Kernel names: how they are composed of a row's fields, and how they are parsed back.

    <op>[_<scheme>][_<activation>][_<layout>]_<isa>[_emulated]

    linear_u4g32o_f32_n32k32_avx2            op linear, weight u4 in groups of 32 with offset, f32 activations
    linear_u4g32o_i8g32_n32k32_avx512_vnni   the same weight, 8-bit activations in groups of 32
    linear_u4g32o_bf16w_n32k32_amx           BF16 activations, and weights rounded to BF16 as well
    linear_u4g32ot_bf16_n32k256_amx_emulated the AMX algorithm without its instructions (tests only)
    pack_i6g16t_n32k256_avx2                 no activation enters
    rms_norm_f32_scalar                      no scheme, no layout

`<scheme>` is Scheme.name: <codes>[g<k>|b<n>x<k>|tensor|channel][z|o][t][s][c][i][m], or `any`. `<isa>` is the stem of the C++ file, or `reference`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from fewbit.spec.cell import KernelRow
from fewbit.spec.dtype import DTYPES
from fewbit.spec.features import ISAS
from fewbit.spec.op import OPS


def _alternatives(names: object) -> str:
    return "|".join(sorted(map(str, names), key=len, reverse=True))  # type: ignore[call-overload]


_CODES = _alternatives(DTYPES)
SCHEME = re.compile(rf"any|(?:{_CODES})(?:g\d+|b\d+x\d+|tensor|channel)?[zo]?t?s?c?i?m?")
ACTIVATION = re.compile(rf"(?:{_CODES})(?:g\d+|token|tensor|w)?")
LAYOUT = re.compile(r"n\d+(?:k\d+|parts)|paged\d+|canonical")
NAME = re.compile(
    rf"(?P<op>{_alternatives(OPS)})"
    rf"(?:_(?P<scheme>{SCHEME.pattern}))??"  # lazy: with one dtype only (rms_norm_f32), it is the activation
    rf"(?:_(?P<activation>{ACTIVATION.pattern}))?"
    rf"(?:_(?P<layout>{LAYOUT.pattern}))?"
    rf"_(?P<isa>{_alternatives(ISAS)})(?P<emulated>_emulated)?"
)


@dataclass(frozen=True, slots=True)
class KernelName:
    op: str
    scheme: str
    activation: str
    layout: str
    isa: str
    emulated: bool = False

    def __str__(self) -> str:
        tail = "emulated" if self.emulated else ""
        parts = (self.op, self.scheme, self.activation, self.layout, self.isa, tail)
        return "_".join(part for part in parts if part)


def parse_name(name: str) -> KernelName:
    """The fields of a name; ValueError with the grammar when it is not one. `pack_u4g32o_...` has a scheme only."""
    match = NAME.fullmatch(name)
    if match is None:
        raise ValueError(
            f"kernel name {name!r} does not follow <op>[_<scheme>][_<activation>][_<layout>]_<isa>[_emulated]; "
            f"ops: {', '.join(OPS)}; isas: {', '.join(ISAS)}"
        )
    scheme, activation = match["scheme"] or "", match["activation"] or ""
    if OPS[match["op"]].scheme_of and not scheme:  # the only dtype belongs to the weight
        scheme, activation = activation, ""
    layout, emulated = match["layout"] or "", match["emulated"] is not None
    return KernelName(match["op"], scheme, activation, layout, match["isa"], emulated)


def check_name(row: KernelRow) -> None:
    """The name says what the fields say, and the row requires all that its instruction set implies."""
    name = parse_name(row.name)
    told = KernelName(row.op, row.scheme, row.activation, row.layout, name.isa, bool(row.emulates))
    if name != told:
        raise ValueError(f"row {row.name} is named unlike its fields; they say {told}")
    implied = frozenset() if row.emulates else ISAS[name.isa].requires
    if not implied <= row.requires:
        lacking = ", ".join(sorted(implied - row.requires))
        raise ValueError(f"row {row.name} must also require {lacking}, which its instruction set implies")
    if (name.isa == "reference") != (row.backend == "reference"):
        raise ValueError(f"row {row.name} of backend {row.backend} is named for isa {name.isa}")
