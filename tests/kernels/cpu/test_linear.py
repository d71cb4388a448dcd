"""linear rows with f32 activations: right against f64, and one set of bits for every M, thread count and instruction set."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cpu.packed_weights import PANEL, SCHEMES, dequantize, k_sizes, pack, random_parts
from tests.kernels.cpu.rows import assert_close, assert_same_bits, need, rows_of, run

ROWS = [
    (scheme, row)
    for scheme in SCHEMES
    for row in rows_of("linear", scheme=scheme.name, activation="f32")
    if row.layout != "n32parts"
]
VECTOR_ROWS = [(scheme, row) for scheme, row in ROWS if not row.name.endswith("_scalar")]
N_SIZES = (1, 15, 16, 17, PANEL - 1, PANEL, PANEL + 1, 3 * PANEL + 17)
M_SIZES = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    13,
    14,
    15,
    29,
)  # around both ends of the fused path and of a 6 and a 14 row tile


def activations(m: int, k: int) -> np.ndarray:
    """[m, k] inside wider rows; the rest is NaN, which must not be read into a sum."""
    x = np.full((m, k + 5), np.nan, np.float32)
    x[:, :k] = np.random.default_rng((m, k)).standard_normal((m, k))
    return x


def linear(row, packed, x, n, k, *, threads=1, bias=0, residual=None) -> np.ndarray:
    m = len(x)
    y = np.full((m, n + 3), np.nan, np.float32)
    if residual is not None:
        y[:, :n] = residual
    run(
        row,
        threads=threads,
        x=x,
        weight=packed,
        bias=bias,
        y=y,
        rows=m,
        n=n,
        k=k,
        accumulate=int(residual is not None),
    )
    assert np.isnan(y[:, n:]).all(), f"{row.name} wrote beyond its {n} columns"
    return np.ascontiguousarray(y[:, :n])


def scalar_row(scheme):
    return next(row for s, row in ROWS if s is scheme and row.name.endswith("_scalar"))


def test_every_scheme_has_rows():
    assert {scheme for scheme, _ in ROWS} == set(SCHEMES)


@pytest.mark.parametrize(("scheme", "row"), ROWS, ids=lambda x: x.name)
def test_close_to_f64(scheme, row):
    """A chain of K fused steps is off by at most K half units of the sum of |w*x|: gamma_K of Higham, chapter 3."""
    need(row)
    for n, k, m in (
        (1, k_sizes(scheme)[0], 1),
        (PANEL + 1, k_sizes(scheme)[-1], 3),
        (2 * PANEL, k_sizes(scheme)[-1], 29),
    ):
        for extreme in (False, True):
            parts = random_parts(scheme, n, k, extreme=extreme)
            w, x = dequantize(scheme, parts).astype(np.float64), activations(m, k)
            exact = x[:, :k].astype(np.float64) @ w.T
            bound = k * 2.0**-24 * 1.01 * (np.abs(x[:, :k]).astype(np.float64) @ np.abs(w).T) + k * 2.0**-149
            found = linear(row, pack(scheme, parts), x, n, k)
            assert_close(found, exact, bound, f"{row.name} n={n} k={k} m={m} extreme={extreme}")


@pytest.mark.parametrize("scheme", [s for s in SCHEMES if s.plain or s.bits == 8 or s.bias], ids=str)
def test_the_chain_is_the_stated_one(scheme):
    """The scalar row equals a fused chain over ascending k, in f64 arithmetic that rounds each step to f32 correctly."""
    n, k, m = 5, k_sizes(scheme)[0], 2
    parts = random_parts(scheme, n, k)
    w, x = dequantize(scheme, parts).astype(np.longdouble), activations(m, k)
    total = np.zeros((m, n), np.float32)
    for i in range(
        k
    ):  # products of f32 have 48 bits and longdouble 64: sums rarely round twice, never for these seeds
        total = (x[:, i : i + 1].astype(np.longdouble) * w[:, i] + total).astype(np.float32)
    assert_same_bits(linear(scalar_row(scheme), pack(scheme, parts), x, n, k), total, scheme.name)


@pytest.mark.parametrize(("scheme", "row"), VECTOR_ROWS, ids=lambda x: x.name)
def test_same_bits_as_scalar(scheme, row):
    need(row)
    for n in N_SIZES:
        for k in k_sizes(scheme):
            for m in (1, 7) if n != PANEL + 1 else M_SIZES:
                for extreme in (False, True):
                    packed = pack(scheme, random_parts(scheme, n, k, extreme=extreme))
                    x = activations(m, k)
                    expected = linear(scalar_row(scheme), packed, x, n, k)
                    what = f"{row.name} n={n} k={k} m={m} extreme={extreme}"
                    assert_same_bits(linear(row, packed, x, n, k), expected, what)


@pytest.mark.parametrize(("scheme", "row"), ROWS, ids=lambda x: x.name)
def test_a_row_has_the_same_bits_in_every_batch_and_thread_count(scheme, row):
    need(row)
    n, k = 4 * PANEL + 9, 2 * scheme.block_k + (7 if scheme.plain else 0)
    packed, x = pack(scheme, random_parts(scheme, n, k)), activations(300, k)
    whole = linear(row, packed, x, n, k)
    for m in (1, 2, 3, 7, 64, 127):
        for first in (0, 300 - m):
            part = np.ascontiguousarray(x[first : first + m])
            assert_same_bits(
                linear(row, packed, part, n, k), whole[first : first + m], f"{row.name} rows {first}..+{m}"
            )
    for threads in (2, 3, 5):
        for m in (1, 4, 300):
            found = linear(row, packed, x[:m], n, k, threads=threads)
            assert_same_bits(found, whole[:m], f"{row.name} m={m} threads={threads}")


@pytest.mark.parametrize(("scheme", "row"), ROWS, ids=lambda x: x.name)
def test_bias_and_residual(scheme, row):
    need(row)
    for n in (17, PANEL + 1):
        for m in (1, 9):
            k = scheme.block_k
            packed, x = pack(scheme, random_parts(scheme, n, k)), activations(m, k)
            rng = np.random.default_rng(3)
            bias, residual = (
                rng.standard_normal(n).astype(np.float32),
                rng.standard_normal((m, n)).astype(np.float32),
            )
            product = linear(row, packed, x, n, k)
            assert_same_bits(linear(row, packed, x, n, k, bias=bias), product + bias, f"{row.name} bias")
            both = linear(row, packed, x, n, k, bias=bias, residual=residual)
            assert_same_bits(both, residual + (product + bias), f"{row.name} bias and residual")


@pytest.mark.parametrize(("scheme", "row"), ROWS, ids=lambda x: x.name)
def test_no_rows_is_no_work(scheme, row):
    need(row)
    k = scheme.block_k
    packed = pack(scheme, random_parts(scheme, PANEL, k))
    assert linear(row, packed, activations(0, k), PANEL, k).shape == (0, PANEL)
