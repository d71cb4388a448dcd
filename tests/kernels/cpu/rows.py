"""Runs one row of the registry on numpy arrays, and compares bits. Shared by the kernel tests of this folder."""

from __future__ import annotations

import ctypes
import math
from functools import cache
from typing import Any

import numpy as np
import pytest

from fewbit.kernels.cpu import abi, library
from fewbit.kernels.ops.gate import SILU
from fewbit.kernels.ops.input_codes import InputCodes
from fewbit.registry.table import load_rows
from fewbit.spec.cell import KernelRow

CAPACITY = 1 << 20  # rows told to workspace_bytes
_last_plan: list[Any] = []  # kept alive: a pool's threads may look at a plan a moment after fb_run returned


def rows_of(op: str, **fields: Any) -> list[KernelRow]:
    """The cpu rows of an op whose fields have these values."""
    return [
        r
        for r in load_rows()
        if r.op == op and r.backend == "cpu" and all(getattr(r, k) == v for k, v in fields.items())
    ]


def need(row: KernelRow) -> None:
    """Skips the test with a reason when this machine cannot run the row."""
    lacking = row.requires - library.cpu_features()
    if lacking:
        pytest.skip(f"{row.name} requires {', '.join(sorted(lacking))}")


@cache
def pool(threads: int) -> int:
    return library.load().fb_pool_create(threads, None)


def run(row: KernelRow | str, *, threads: int = 1, capacity: int = CAPACITY, **fields: Any) -> None:
    """Calls the row, with a workspace for `capacity` rows; the gate is silu, where none is given. Arrays become pointers and strides (of axis 0, unless given), `rows` and `seqs` may be numbers."""
    name = row if isinstance(row, str) else row.name
    op = next(r.op for r in load_rows() if r.name == name)
    lib = library.load()
    kernel = lib.fb_find(name.encode())
    assert kernel, f"{name} is not compiled into the library"
    struct = abi.STRUCTS[op]()
    alive = []
    fields = {"norm": 0, "eps": 0, "fold": 1, **SILU.numbers(), **InputCodes().numbers()} | fields
    for field, *_ in struct._fields_:
        base = field.removesuffix("_stride")
        if field in ("rows", "seqs"):
            alive.append(np.array([fields[field]], np.int32))
            setattr(struct, field, alive[-1].ctypes.data)
        elif field in fields:
            value = fields[field]
            setattr(struct, field, value.ctypes.data if isinstance(value, np.ndarray) else value)
        elif base != field and isinstance(fields.get(base), np.ndarray):
            array = fields[base]
            setattr(struct, field, array.strides[0] // array.itemsize)
        elif field not in ("workspace", "reserved", "form") and not field.endswith("_stride"):
            raise TypeError(f"{op} needs {field}")
    if kernel.contents.workspace_bytes:
        wanted = kernel.contents.workspace_bytes(ctypes.addressof(struct), capacity)
        alive.append(np.full(wanted, 0xFF, np.uint8))  # NaN bytes: what was not written must not be read
        struct.workspace = alive[-1].ctypes.data
    steps = (abi.Step * 1)(abi.Step(kernel, ctypes.addressof(struct), 0, 0))
    _last_plan.append(steps)
    assert lib.fb_run(pool(threads), steps, 1) == 0


def assert_same_bits(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    """Equal bits, any NaN equal to any NaN; the first differing coordinate is printed."""
    assert found.shape == expected.shape and found.dtype == expected.dtype
    word = np.dtype(f"u{found.dtype.itemsize}")
    differ = found.view(word) != expected.view(word)
    if found.dtype.kind == "f":
        differ &= ~(np.isnan(found) & np.isnan(expected))
    if differ.any():
        at = tuple(int(i) for i in np.argwhere(differ)[0])
        pytest.fail(
            f"{what}: {int(differ.sum())} of {math.prod(found.shape)} differ, first at {at}: "
            f"{found[at]!r} ({found.view(word)[at]:#x}) instead of {expected[at]!r} ({expected.view(word)[at]:#x})"
        )


def assert_close(found: np.ndarray, expected: np.ndarray, bound: np.ndarray | float, what: str) -> None:
    """|found - expected| <= bound everywhere; bound is derived by the caller, element by element."""
    error = np.abs(found.astype(np.float64) - expected)
    bound = np.broadcast_to(bound, error.shape)
    wrong = ~(error <= bound)
    if wrong.any():
        at = tuple(int(i) for i in np.argwhere(wrong)[0])
        pytest.fail(
            f"{what}: {int(wrong.sum())} beyond the bound, first at {at}: {found[at]!r} against {expected[at]!r}, error {error[at]:.3g} > {bound[at]:.3g}"
        )
