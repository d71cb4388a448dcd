"""Where the bytes of a packed weight lie, and how many there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fewbit.spec.scheme import Scheme


@dataclass(frozen=True, slots=True)
class Layout:
    """A layout by name (`n32k32`), for one scheme, and the panel and block extents that its kernels assume."""

    name: str
    scheme: Scheme
    panel_n: int
    block_k: int


@dataclass(frozen=True, slots=True)
class PackedTensor:
    """A weight[n, k] as a kernel reads it: opaque bytes in a layout. `data` is a buffer of the backend."""

    layout: Layout
    n: int
    k: int
    data: Any
