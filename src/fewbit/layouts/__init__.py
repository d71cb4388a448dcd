"""Layouts: where the bytes of a weight lie for the kernels that read it. Pure data here; the numpy references are beside it."""

from __future__ import annotations

from fewbit.layouts.n32k32 import layout as n32
from fewbit.layouts.n32parts import layout as parts
from fewbit.spec.layout import Layout
from fewbit.spec.scheme import Scheme

_BY_NAME = {name: module for module in (n32, parts) for name in module.NAMES}


def layout(name: str, scheme: Scheme) -> Layout:
    """The layout of that name for a scheme; ValueError when it does not hold such a scheme."""
    if name not in _BY_NAME:
        raise ValueError(f"unknown layout {name!r}; known: {', '.join(_BY_NAME)}")
    return _BY_NAME[name].layout(name, scheme)


def packed_bytes(layout: Layout, n: int, k: int) -> int:
    """Size of a weight[n, k], padding included: always a multiple of 64."""
    return _BY_NAME[layout.name].packed_bytes(layout, n, k)
