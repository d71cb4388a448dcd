"""swiglu rows; through them, exp and the division of every instruction set."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cpu.rows import assert_close, assert_same_bits, need, rows_of, run

ROWS = rows_of("swiglu")
SPECIAL = np.array(
    [0, -0.0, 1e-45, -1e-45, 88.72, -88.72, 88.8, -88.8, 104, -104, 3e38, -3e38, np.inf, -np.inf, np.nan],
    np.float32,
)


def swiglu(row, gate: np.ndarray, up: np.ndarray, threads: int = 1) -> np.ndarray:
    y = np.zeros_like(gate)
    run(
        row,
        threads=threads,
        gate_up=np.concatenate([gate, up], axis=1),
        y=y,
        rows=len(gate),
        dim=gate.shape[1],
    )
    return y


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
@pytest.mark.parametrize("dim", (1, 15, 16, 17, 33, 1536))
def test_values_and_bits(row, dim):
    need(row)
    rng = np.random.default_rng(0)
    gate, up = (rng.standard_normal((2, 5, dim)) * 6).astype(np.float32)
    y = swiglu(row, gate, up)
    wide = gate.astype(np.float64)
    expected = wide / (1 + np.exp(-wide)) * up
    assert_close(y, expected, 2.5e-7 * np.abs(expected), row.name)  # silu 1.8e-7, one more product
    for threads in (1, 2, 3):
        assert_same_bits(swiglu(row, gate, up, threads), swiglu("swiglu_f32_scalar", gate, up), row.name)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_special_values(row):
    need(row)
    gate, up = SPECIAL[None], np.ones((1, len(SPECIAL)), np.float32)
    y = swiglu(row, gate, up)
    assert_same_bits(y, swiglu("swiglu_f32_scalar", gate, up), row.name)
    with np.errstate(all="ignore"):
        wide = gate.astype(np.float64)
        expected = wide / (1 + np.exp(-wide))
    # where e^-x overflows f32 the result is -0; the true value is under 3e-37
    finite = np.isfinite(expected)
    assert_close(y[finite], expected[finite], 2e-7 * np.abs(expected[finite]) + 3e-37, row.name)
    assert y[0, 12] == np.inf and np.isnan(y[0, 13:]).all()
