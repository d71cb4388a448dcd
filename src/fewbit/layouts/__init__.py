"""Layouts: where the bytes of a weight lie for the kernels that read it. Pure data here; the numpy references are beside it."""

from __future__ import annotations

from fewbit.layouts.n32k32 import layout as n32
from fewbit.layouts.n32parts import layout as parts
from fewbit.spec.layout import Layout
from fewbit.spec.scheme import Scheme


def layout(name: str, scheme: Scheme) -> Layout:
    """The layout of that name for a scheme; ValueError when it does not hold such a scheme."""
    if name in n32.NAMES:
        return n32.layout(name, scheme)
    if name in parts.NAMES:
        return parts.layout(name, scheme)
    raise ValueError(f"unknown layout {name!r}; known: {', '.join((*n32.NAMES, *parts.NAMES))}")


def packed_bytes(layout: Layout, n: int, k: int) -> int:
    """Size of a weight[n, k], padding included: always a multiple of 64."""
    if layout.name in parts.NAMES:
        return parts.packed_bytes(layout, n, k)
    return n32.packed_bytes(layout, n, k)
