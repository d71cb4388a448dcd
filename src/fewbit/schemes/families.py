"""Families whose numerics are no formula of codes and scales: one module each, whose `dequantize(tensor)` is the reference."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from fewbit.schemes.arrays import Array
from fewbit.spec.scheme import QuantTensor

FAMILIES: dict[str, str] = {
    **{
        name: "fewbit.schemes.iq.reference"
        for name in ("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s")
    },
}
"""Scheme.family to module, `"iq2_xxs": "fewbit.schemes.iq.reference"`."""


def dequantizer(family: str) -> Callable[[QuantTensor], Array]:
    if family not in FAMILIES:
        raise ValueError(f"no reference for scheme family {family!r}; known: {', '.join(FAMILIES) or 'none'}")
    found: Callable[[QuantTensor], Array] = import_module(FAMILIES[family]).dequantize
    return found
