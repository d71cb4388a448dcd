"""linear with 8-bit activations: against f64, and the same bits on every instruction set, at any M and thread count."""

from __future__ import annotations

import numpy as np
import pytest

from fewbit.spec.cell import KernelRow
from tests.kernels.cpu.packed import pack, packed_case, random_tensor
from tests.kernels.cpu.rows import assert_close, assert_same_bits, need, rows_of, run

ROWS = rows_of("linear", activation="i8g32")
SCHEMES = sorted({row.scheme for row in ROWS})
GROUP, TILE_ROWS, PANEL = 32, 16, 32
M_SIZES = (1, 2, TILE_ROWS - 1, TILE_ROWS, TILE_ROWS + 1, 4 * TILE_ROWS + 3)
N_SIZES = (1, PANEL - 1, PANEL, PANEL + 1, 3 * PANEL)
UNIT = 2.0**-24


def rows_for(scheme: str) -> list[KernelRow]:
    """Scalar first."""
    return sorted((row for row in ROWS if row.scheme == scheme), key=lambda row: row.priority)


def column_sizes(scheme: str) -> tuple[int, ...]:
    return (256, 768) if scheme.endswith("t") else (32, 64, 224)


def activations(m: int, k: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng([seed, m, k]).standard_normal((m, k), np.float32) * 3


def apply(row: KernelRow, x: np.ndarray, packed: np.ndarray, n: int, threads: int = 1) -> np.ndarray:
    y = np.full((len(x), n), 7.0, np.float32)
    shape = {"rows": len(x), "n": n, "k": x.shape[1], "capacity": len(x)}
    run(row, threads=threads, x=x, weight=packed, bias=None, y=y, accumulate=0, **shape)
    return y


def quantized(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(x as the kernels see it, in f64; the f32 scale of each element), by the definition in activations.h."""
    groups = x.reshape(len(x), -1, GROUP)
    largest = np.abs(groups).max(axis=2, keepdims=True)
    zero = largest < 2.0**-100
    inverse = np.where(zero, 0, np.float32(127) / np.where(zero, 1, largest)).astype(np.float32)
    scale = np.where(zero, 0, largest / np.float32(127)).astype(np.float32)
    codes = np.rint(groups * inverse)
    spread = np.broadcast_to(scale, groups.shape).reshape(x.shape)
    return (codes.astype(np.float64) * scale).reshape(x.shape), spread


def check_against_f64(row: KernelRow, m: int, n: int, k: int) -> None:
    packed, weight = packed_case(row, n, k)
    x = activations(m, k)
    seen, scale = quantized(x)
    y = apply(row, x, packed, n)
    w = np.abs(weight.astype(np.float64))
    steps = 2 * k // 16 + 4
    # terms of the chain: scale * code and offset apart, so up to twice |offset| in magnitude; the codes' part is at most |w| + |offset|
    largest_term = (
        np.abs(seen) @ (3 * w).T + scale.astype(np.float64) @ np.ones((k, n)) * 127 * np.abs(weight).max()
    )
    assert_close(
        y, seen @ weight.T.astype(np.float64), steps * UNIT * largest_term, f"{row.name} {m}x{n}x{k}"
    )
    rounding = scale.astype(np.float64) * (0.5 * (1 + 2.0**-15)) @ w.T
    assert_close(
        y,
        x.astype(np.float64) @ weight.T,
        rounding + steps * UNIT * largest_term,
        f"{row.name}, with the rounding of x",
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_matches_f64(row: KernelRow) -> None:
    need(row)
    for m, n, k in [(m, 40, column_sizes(row.scheme)[-1]) for m in M_SIZES] + [
        (3, n, k) for n in N_SIZES for k in column_sizes(row.scheme)
    ]:
        check_against_f64(row, m, n, k)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_isa_gives_the_same_bits(scheme: str) -> None:
    scalar, *others = rows_for(scheme)
    k = column_sizes(scheme)[-1]
    for m in M_SIZES:
        packed, _ = packed_case(scalar, 70, k, seed=m)
        x = activations(m, k)
        expected = apply(scalar, x, packed, 70)
        for row in others:
            if not row.requires <= available():
                continue
            assert_same_bits(apply(row, x, packed, 70), expected, f"{row.name} at M={m}")


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_rows_do_not_depend_on_their_company(row: KernelRow) -> None:
    need(row)
    k = column_sizes(row.scheme)[-1]
    packed, _ = packed_case(row, 96, k)
    x = activations(70, k)
    whole = apply(row, x, packed, 96)
    for m in (1, 2, 15, 16, 33):
        assert_same_bits(apply(row, x[:m].copy(), packed, 96), whole[:m], f"{row.name}, first {m} rows")
    assert_same_bits(apply(row, x, packed, 96, threads=3), whole, f"{row.name}, 3 threads")
    assert_same_bits(
        apply(row, x[:1].copy(), packed, 96, threads=5), whole[:1], f"{row.name}, 5 threads, 1 row"
    )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_largest_codes_do_not_overflow(row: KernelRow) -> None:
    """All codes and all activations at their extremes, in every combination of signs: the 16-bit steps must not saturate."""
    need(row)
    k = column_sizes(row.scheme)[0]
    for code_end in (0, 1):
        tensor = random_tensor(row.scheme, 33, k)
        codes = tensor.parts["codes"]
        codes[:] = tensor.scheme.codes.highest if code_end else tensor.scheme.codes.lowest
        if "super_scale" not in tensor.parts:
            tensor.parts["scale"][:] = 1
        tensor.parts.get("offset", np.zeros(1))[:] = 0
        packed, value = pack(tensor), int(codes[0, 0])
        for x_value in (-2.0, 2.0):
            x = np.full((2, k), x_value, np.float32)
            y = apply(row, x, packed, 33)
            if "super_scale" in tensor.parts:
                scale = (
                    tensor.parts["super_scale"]
                    .astype(np.float64)
                    .repeat(256 // tensor.scheme.granularity.k, axis=1)
                    * tensor.parts["scale"]
                )
                expected = scale.sum(axis=1) * tensor.scheme.granularity.k * value * x_value
            else:
                expected = np.full(33, value * x_value * k)
            assert_close(
                y,
                np.broadcast_to(expected, y.shape),
                np.abs(expected).max() * 1e-5 + 1e-9,
                f"{row.name} codes {value}",
            )


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_bias_and_residual(row: KernelRow) -> None:
    need(row)
    k, n = column_sizes(row.scheme)[0], 45
    packed, _ = packed_case(row, n, k)
    x, rng = activations(5, k), np.random.default_rng(3)
    bias, residual = rng.standard_normal(n, np.float32), rng.standard_normal((5, n), np.float32)
    plain = apply(row, x, packed, n)
    y = residual.copy()
    run(row, x=x, weight=packed, bias=bias, y=y, rows=5, n=n, k=k, accumulate=1, capacity=5)
    assert_same_bits(y, residual + (plain + bias), row.name)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_zero_tiny_and_not_finite_groups(row: KernelRow) -> None:
    need(row)
    k = column_sizes(row.scheme)[-1]
    packed, _ = packed_case(row, 40, k)
    x = np.zeros((6, k), np.float32)
    x[1, 3] = -0.0
    x[2] = 2.0**-120  # below what a group resolves
    x[3, 5], x[4, 40 % k], x[5, k - 1] = np.nan, np.inf, -np.inf
    y = apply(row, x, packed, 40)
    assert not y[:3].any()
    assert np.isnan(y[3:]).all(), "an infinity or NaN must reach every output of its row"


def test_strides_leave_the_rest_untouched() -> None:
    for row in ROWS:
        if not row.requires <= available():
            continue
        k = column_sizes(row.scheme)[0]
        packed, _ = packed_case(row, 40, k)
        wide = activations(4, k + 8)
        out = np.full((4, 64), 9.0, np.float32)
        run(
            row,
            x=wide[:, :k],
            x_stride=k + 8,
            weight=packed,
            bias=None,
            y=out[:, :40],
            y_stride=64,
            rows=4,
            n=40,
            k=k,
            accumulate=0,
            capacity=4,
        )
        assert_same_bits(out[:, :40].copy(), apply(row, wide[:, :k].copy(), packed, 40), row.name)
        assert (out[:, 40:] == 9).all()


def available() -> frozenset[str]:
    from fewbit.kernels.cpu import library

    return library.cpu_features()
