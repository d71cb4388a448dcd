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
    **dict.fromkeys(("aqlm", "vptq"), "fewbit.schemes.vector.reference"),
    **dict.fromkeys(("e8p12", "e8p12rvq3b", "e8p12rvq4b"), "fewbit.schemes.lattice.reference"),
}
"""Scheme.family to module. A family with sizes is named by what stands before the first "_": aqlm_2x8g8 is of aqlm."""


def dequantizer(family: str) -> Callable[[QuantTensor], Array]:
    module = FAMILIES.get(family) or FAMILIES.get(family.partition("_")[0])
    if module is None:
        raise ValueError(f"no reference for scheme family {family!r}; known: {', '.join(FAMILIES)}")
    found: Callable[[QuantTensor], Array] = import_module(module).dequantize
    return found
