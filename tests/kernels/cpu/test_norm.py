"""rms_norm rows: f64 reference with derived bounds, and one set of bits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cpu.rows import assert_close, assert_same_bits, need, rows_of, run

U = 2.0**-24  # unit roundoff of f32
ROWS = rows_of("rms_norm")
DIMS = (1, 15, 16, 17, 64, 576, 1000)  # around the 16 lanes, a head, a hidden size


def arrays(rows: int, rows_per: int, dim: int, seed: int = 0) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(seed)
    x, residual = rng.standard_normal((2, rows, rows_per * dim), np.float32)
    return x, residual, rng.standard_normal(dim, np.float32)


def norm(row, x, weight, rows_per=1, residual=None, eps=1e-5, threads=1):
    """y, and the residual after the call."""
    y = np.zeros_like(x)
    residual = None if residual is None else residual.copy()
    extra = {"residual": 0, "residual_stride": 0} if residual is None else {"residual": residual}
    run(
        row,
        threads=threads,
        x=x,
        weight=weight,
        y=y,
        rows=len(x),
        dim=len(weight),
        rows_per=rows_per,
        eps=eps,
        **extra,
    )
    return y, residual


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("rows_per", (1, 3))
def test_values(row, dim, rows_per):
    need(row)
    x, _, weight = arrays(5, rows_per, dim)
    y, _ = norm(row, x, weight, rows_per)
    vectors = x.astype(np.float64).reshape(5, rows_per, dim)
    expected = vectors / np.sqrt((vectors**2).mean(-1, keepdims=True) + np.float32(1e-5)) * weight
    # The sum is a chain of dim/16 fused steps and a tree of 4; the root halves its error. Five roundings follow.
    bound = ((dim / 16 + 5) / 2 + 6) * U * np.abs(expected)
    assert_close(y, expected.reshape(5, -1), bound.reshape(5, -1), row.name)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_residual_is_updated_then_normalized(row):
    need(row)
    x, residual, weight = arrays(4, 1, 100)
    y, updated = norm(row, x, weight, residual=residual)
    assert_same_bits(updated, residual + x, "residual")
    assert_same_bits(y, norm(row, residual + x, weight)[0], "y")


@pytest.mark.parametrize("row", ROWS[:-1], ids=lambda r: r.name)
@pytest.mark.parametrize("dim", DIMS)
def test_same_bits_on_every_isa_and_thread_count(row, dim):
    need(row)
    scalar = next(r for r in ROWS if r.name.endswith("scalar"))
    x, residual, weight = arrays(7, 1, dim, seed=1)
    expected = norm(scalar, x, weight, residual=residual)
    for threads in (1, 2, 3):
        y, updated = norm(row, x, weight, residual=residual, threads=threads)
        assert_same_bits(y, expected[0], f"{row.name} on {threads} threads")
        assert_same_bits(updated, expected[1], f"residual of {row.name}")


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_a_row_does_not_depend_on_the_others(row):
    need(row)
    x, _, weight = arrays(6, 2, 48)
    whole, _ = norm(row, x, weight, rows_per=2)
    for r in range(6):
        assert_same_bits(norm(row, x[r : r + 1], weight, rows_per=2)[0][0], whole[r], f"row {r}")
