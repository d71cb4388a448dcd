"""A linear that norms its activations itself, or computes the gate, gives the bits of the ops one after the other."""

from __future__ import annotations

import numpy as np
import pytest

from fewbit.kernels.ops.gate import SILU, Gate
from fewbit.spec.cell import KernelRow
from tests.kernels.cpu.packed import packed_case
from tests.kernels.cpu.rows import assert_same_bits, need, rows_of, run

ROWS = [
    row
    for row in rows_of("linear")
    if row.scheme in ("bf16", "u4g32o", "u4g32ot") and row.layout != "n32parts"
]
EPS = 1e-5


def apply(row: KernelRow, x: np.ndarray, packed: np.ndarray, n: int, **fields: object) -> np.ndarray:
    y = np.full((len(x), n // int(fields.get("fold", 1))), 7.0, np.float32)
    shape = {"rows": len(x), "n": n, "k": x.shape[1], "capacity": len(x)}
    run(
        row,
        threads=3,
        x=x,
        weight=packed,
        bias=fields.pop("bias", None),
        y=y,
        accumulate=0,
        **shape,
        **fields,
    )
    return y


@pytest.mark.parametrize("row", [row for row in ROWS if row.norm_rows], ids=lambda row: row.name)
def test_a_norm_as_prologue(row: KernelRow) -> None:
    need(row)
    n, k = 96, 512
    packed, _ = packed_case(row, n, k)
    rng = np.random.default_rng(3)
    weight = rng.standard_normal(k, np.float32)
    for m in {row.m_range[0], min(row.norm_rows, 37)}:
        x = rng.standard_normal((m, k), np.float32) * 5
        normed = np.empty_like(x)
        run(
            "rms_norm_f32_scalar",
            x=x,
            weight=weight,
            y=normed,
            residual=None,
            rows=m,
            dim=k,
            rows_per=1,
            eps=EPS,
        )
        assert_same_bits(
            apply(row, x, packed, n, norm=weight, eps=EPS), apply(row, normed, packed, n), row.name
        )


@pytest.mark.parametrize("gate", (SILU, Gate(1.702, 1.0, 7.0)), ids=("silu", "gpt-oss"))
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_gate_as_epilogue(row: KernelRow, gate: Gate) -> None:
    need(row)
    n, k = 320, 512
    packed, _ = packed_case(row, n, k)
    rng = np.random.default_rng(4)
    bias = rng.standard_normal(n, np.float32)
    for m in (row.m_range[0], 37):
        x = rng.standard_normal((m, k), np.float32) * 5
        y = np.empty((m, n // 2), np.float32)
        both = apply(row, x, packed, n, bias=bias)
        run("swiglu_f32_scalar", gate_up=both, y=y, rows=m, dim=n // 2, **gate.numbers())
        assert_same_bits(apply(row, x, packed, n, bias=bias, fold=2, **gate.numbers()), y, row.name)
