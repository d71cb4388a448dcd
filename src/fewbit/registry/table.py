"""The table: every row that a kernel folder declares, checked once.

A kernel folder `kernels/<backend>/<kernel>/` has a `kernel.py` that is data: a tuple `ROWS`, written with the helpers of
`registry/declare.py` (or KernelRow itself), and nothing else. It imports fewbit.spec and fewbit.registry only; the table
loads it by path, so that neither its package nor an array package nor the library is imported.

    '''linear: y[M,N] (+)= x[M,K] * W[N,K]^T. Rows of f32 activations share their bits on every instruction set.'''
    from fewbit.registry.declare import GROUP32, PLAIN, TWO_LEVEL, family
    from fewbit.spec.cell import M_MAX, Constraint

    AMX_FROM_M = 16  # rows from which tiles win; measured with bench.py
    F32 = {"activation": "f32", "exactness": "bitwise", "result_class": "linear_f32"}
    BF16 = {"activation": "bf16", "result_class": "linear_bf16_amx"}
    K32, K256 = (Constraint("k", multiple=32),), (Constraint("k", multiple=256),)

    ROWS = (
        *family("linear", schemes=GROUP32, isas=("scalar", "avx2", "avx512"), layout="n32k32", constraints=K32, **F32),
        *family("linear", schemes=PLAIN, isas=("scalar", "avx2", "avx512"), layout="n32k32", **F32),
        *family("linear", schemes=TWO_LEVEL, isas=("scalar", "avx2", "avx512"), layout="n32k256", constraints=K256, **F32),
        # the same layout, so that the weight is packed once: below AMX_FROM_M the avx512 row serves
        *family("linear", schemes=GROUP32, isas=("amx",), layout="n32k32", constraints=K32, m_range=(AMX_FROM_M, M_MAX), **BF16),
        # the same algorithm in C++ scalars, registered as linear_<scheme>_bf16_n32k32_amx_emulated; tests only
        *family("linear", schemes=GROUP32, isas=("scalar",), emulates="amx", layout="n32k32", constraints=K32, **BF16),
    )

Names follow registry/grammar.py and are the ones that the library's fb_find takes: FB_KERNEL_ISA(linear_u4g32o_f32_n32k32, ...)
in avx2.cpp is the row linear_u4g32o_f32_n32k32_avx2. Priorities follow the convention in spec/features.py. Of rows that could
serve one cell and the same M, no two may have the same priority. f32 and bf16 rows compete (a cell's activations `auto` or
`16`); i8g32 rows serve only cells that ask for activations `8`, i8token rows those that
ask for them by name.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from fewbit.registry.grammar import check_name
from fewbit.spec.cell import KernelRow

KERNELS = Path(__file__).parents[1] / "kernels"


@cache
def load_rows(kernels: Path = KERNELS) -> tuple[KernelRow, ...]:
    """All declared rows, highest priority first within an op, checked by `check_rows`."""
    rows = itertools.chain.from_iterable(_read(path) for path in sorted(kernels.glob("*/*/kernel.py")))
    table = tuple(sorted(rows, key=lambda row: (row.op, row.scheme, -row.priority, row.name)))
    check_rows(table)
    return table


def _read(path: Path) -> tuple[KernelRow, ...]:
    """`ROWS` of a kernel.py, run on its own, outside its package."""
    spec = importlib.util.spec_from_file_location(f"_rows_{path.parts[-3]}_{path.parts[-2]}", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rows = getattr(module, "ROWS", None)
    if not isinstance(rows, tuple) or not all(isinstance(row, KernelRow) for row in rows):
        raise ValueError(f"{path} must define ROWS as a tuple of KernelRow, found {type(rows).__name__}")
    return rows


def check_rows(rows: Iterable[KernelRow]) -> None:
    """ValueError on a name outside the grammar, a duplicate, an unknown emulated row, or an ambiguity of priority."""
    rows = tuple(rows)
    names = {row.name for row in rows}
    for row in rows:
        check_name(row)
        if row.emulates and row.emulates not in names:
            raise ValueError(f"row {row.name} emulates {row.emulates}, which is not declared")
        if not 1 <= row.m_range[0] <= row.m_range[1]:
            raise ValueError(f"row {row.name} has m_range {row.m_range}; expected 1 <= low <= high")
    by_cell: dict[tuple[str, ...], list[KernelRow]] = {}
    for row in rows:
        by_cell.setdefault((row.op, row.scheme, row.backend), []).append(row)
    for group in by_cell.values():
        for a, b in itertools.combinations(group, 2):
            if a.name == b.name:
                raise ValueError(f"row {a.name} is declared twice")
            if a.priority == b.priority and overlap(a, b):
                raise ValueError(
                    f"rows {a.name} and {b.name} both serve {a.op} {a.scheme} with priority {a.priority}; "
                    "give one another priority, m_range or constraint"
                )


def overlap(a: KernelRow, b: KernelRow) -> bool:
    """Whether some cell on some platform, at some M, could be served by both."""
    return (
        not (a.emulates or b.emulates)
        and (a.op, a.scheme, a.backend) == (b.op, b.scheme, b.backend)
        and (a.scale_dtypes == b.scale_dtypes or bool(set(a.scale_dtypes) & set(b.scale_dtypes)))
        and activation_bits(a.activation) == activation_bits(b.activation)
        and (a.layout == b.layout or a.op not in ("pack", "embedding"))  # those are asked for by layout
        and ("any" in (a.phase, b.phase) or a.phase == b.phase)
        and a.m_range[0] <= b.m_range[1]
        and b.m_range[0] <= a.m_range[1]
        and _bounds_meet(a, b)
    )


def activation_bits(activation: str) -> str:
    """Which of the answers to --activations a row belongs to: `16` (f32 and bf16), `8`, "" (no activation enters), or its own name
    where a checkpoint must declare it (i8token: one scale a row costs several times the quality that groups cost)."""
    return (
        activation
        if activation == "i8token"
        else "8"
        if activation.startswith("i8")
        else "16"
        if activation
        else ""
    )


def _bounds_meet(a: KernelRow, b: KernelRow) -> bool:
    """False only when constraints on one axis exclude each other by their bounds."""
    return all(
        ca.least <= cb.most and cb.least <= ca.most
        for ca in a.constraints
        for cb in b.constraints
        if ca.axis == cb.axis
    )
