"""Points of the support product, and the rows that declare kernels over it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Backend = Literal["reference", "cpu", "triton", "cuda"]
Phase = Literal["prefill", "decode", "any"]
State = Literal["attested", "emulated", "compiled", "declared", "refused"]

M_MAX = 1 << 30
ANY_SCHEME = "any"  # of a row that reads whatever the scheme's own reference decodes; no cell asks for it


@dataclass(frozen=True, slots=True)
class Constraint:
    """`axis` (n, k, head_dim, ...) must be a multiple of `multiple` and lie in [least, most]."""

    axis: str
    multiple: int = 1
    least: int = 0
    most: int = M_MAX

    def admits(self, value: int) -> bool:
        return value % self.multiple == 0 and self.least <= value <= self.most


@dataclass(frozen=True, slots=True)
class KernelRow:
    """One kernel, declared as data. `name` is also the entry's name in the kernel library.

    scheme         name of the weight or cache scheme; "" for ops without one; ANY_SCHEME serves all, and all scale types
    scale_dtypes   types of the scale part that the row reads; () when the scheme has no scale
    activation     element type in which activations enter the inner product: f32, bf16, i8g32 (a scale for each 32), i8token (a scale
                   for each row); bf16w: weights are rounded too
    m_range        rows of activations served, inclusive; attention uses `phase`
    requires       features of the platform
    exactness      "bitwise" (same bits as every other bitwise row of its result class) or "tolerance"
    result_class   rows of one class give the same bits for a row of activations at any M, thread count and ISA
    emulates       name of the row whose algorithm this one runs without its instructions ("" when none); an emulating
                   row is never selected, only tested
    norm_rows      up to so many rows of activations, a linear row norms them itself; 0: never
    """

    name: str
    op: str
    backend: Backend
    activation: str
    scheme: str = ""
    scale_dtypes: tuple[str, ...] = ()
    layout: str = ""
    requires: frozenset[str] = frozenset()
    m_range: tuple[int, int] = (1, M_MAX)
    phase: Phase = "any"
    constraints: tuple[Constraint, ...] = ()
    priority: int = 0
    exactness: Literal["bitwise", "tolerance"] = "tolerance"
    result_class: str = ""
    emulates: str = ""
    norm_rows: int = 0


@dataclass(frozen=True, slots=True)
class Cell:
    """What a layer asks for. `sizes` holds the shape axes that constraints speak of.

    activation     "auto" or "16" (f32 or bf16 rows, the platform's best), "8" (i8g32 rows), or the activation of rows by name:
                   i8token where a checkpoint declares one scale a token
    layout         "" = any; of an op that reads what another packed (embedding, pack), that layout
    backend        "auto" = the platform's own; "reference" only on request
    kernel         a row by name: it is used or refused
    """

    op: str
    scheme: str = ""
    scale_dtype: str = ""
    activation: str = "auto"
    phase: Phase = "any"
    sizes: tuple[tuple[str, int], ...] = ()
    backend: str = "auto"
    layout: str = ""
    kernel: str = ""


@dataclass(frozen=True, slots=True)
class Platform:
    """What a machine provides. `name` is a known platform (x86_avx2, x86_avx512, x86_amx, ...)."""

    name: str
    provides: frozenset[str]
    description: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """The answer to a cell: one layout (a weight is packed once) and the row for each interval of M."""

    layout: str
    rows: tuple[tuple[int, int, KernelRow], ...]

    def row_for(self, m: int) -> KernelRow:
        for low, high, row in self.rows:
            if low <= m <= high:
                return row
        raise ValueError(f"no row serves M={m}; intervals: {[(low, high) for low, high, _ in self.rows]}")
