"""Instruction sets of the CPU kernels, by file stem, and the features that each needs.

`ISAS` mirrors cmake/isa.cmake: a kernel folder's `avx512.cpp` is compiled with that stem's flags, so everything in it may
use every feature that the stem implies. A row of that file therefore requires all of them (a test compares the two tables).

Priorities are a convention, so that rows of different files rank without looking at each other:

    -100 reference (asked for by name only)   0 scalar (machines without AVX2, and tests)   10 avx2   20 avx512
    25 avx512_vnni, avx512_bf16   30 amx
"""

from __future__ import annotations

from dataclasses import dataclass

_AVX2 = frozenset({"avx2", "fma", "f16c", "bmi2"})
_AVX512 = _AVX2 | {"avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512vbmi"}
_AMX = _AVX512 | {"avx512_vnni", "avx512_bf16", "amx_tile", "amx_int8", "amx_bf16"}

FEATURES = (
    *("avx2", "fma", "f16c", "bmi2"),
    *("avx512f", "avx512bw", "avx512vl", "avx512dq", "avx512vbmi"),
    *("avx512_vnni", "avx512_bf16", "avx512_fp16"),
    *("amx_tile", "amx_int8", "amx_bf16"),
)
"""Every feature that a machine may provide, in the order in which the library lists them."""


@dataclass(frozen=True, slots=True)
class Isa:
    """One instruction set: `requires` in full (nothing implied is left out), `priority` of its rows by convention."""

    name: str
    requires: frozenset[str]
    priority: int


ISAS = {
    isa.name: isa
    for isa in (
        Isa("reference", frozenset(), -100),
        Isa("scalar", frozenset(), 0),
        Isa("avx2", _AVX2, 10),
        Isa("avx512", _AVX512, 20),
        Isa("avx512_vnni", _AVX512 | {"avx512_vnni"}, 25),
        Isa("avx512_bf16", _AVX512 | {"avx512_bf16"}, 25),
        Isa("amx", _AMX, 30),
    )
}


def sort_features(features: frozenset[str]) -> list[str]:
    """In the order of FEATURES, unknown ones (of other platforms) last."""
    known = [f for f in FEATURES if f in features]
    return known + sorted(features.difference(FEATURES))


def name_features(features: frozenset[str]) -> str:
    """Short text for a set of features: the largest instruction set inside it, then what comes on top."""
    inside = [isa for isa in ISAS.values() if isa.requires and isa.requires <= features]
    if not inside:
        return "+".join(sort_features(features)) or "none"
    best = max(inside, key=lambda isa: (len(isa.requires), isa.priority))
    return "+".join([best.name, *sort_features(features - best.requires)])
