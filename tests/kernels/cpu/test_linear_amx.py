"""linear on AMX tiles, the tiles emulated where there are none: against f64 of the rounded x, and row-independent bits."""

from __future__ import annotations

import numpy as np
import pytest

from fewbit.kernels.cpu import library
from fewbit.schemes.arrays import round_bf16, widen_bf16
from fewbit.schemes.reference import dequantize
from fewbit.spec.cell import KernelRow
from tests.kernels.cpu.packed import pack, packed_case, random_tensor
from tests.kernels.cpu.rows import assert_close, assert_same_bits, need, rows_of, run

ROWS = [
    row
    for name in ("bf16", "bf16w")
    for row in rows_of("linear", activation=name)
    if row.layout != "n32parts"
]
BLOCK, PANEL, STEP, CHUNK = 16, 32, 32, 512  # rows and n and k of a tile, some k of several steps
PLAIN = ("f32", "f16", "bf16")
UNIT = 2.0**-24
LONG = {
    "bf16": 4096 + 32,
    "f16": 2048 + 32,
    "u4g32o": 2048 + 32,
    "i6g16t": 768,
}  # one of each kind, beyond a chunk of gemm.h
LARGE = [row for row in ROWS if row.scheme in LONG]

by_name = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)


def column_sizes(scheme: str) -> tuple[int, ...]:
    if scheme.endswith("t"):
        return 256, CHUNK + 256
    return (32, 96, CHUNK + 32) + ((1, STEP - 1, STEP + 1) if scheme in PLAIN else ())


def activations(m: int, k: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng([seed, m, k]).standard_normal((m, k), np.float32) * 3


def apply(row: KernelRow, x: np.ndarray, packed: np.ndarray, n: int, threads: int = 1) -> np.ndarray:
    y = np.full((len(x), n), 7.0, np.float32)
    shape = {"rows": len(x), "n": n, "k": x.shape[1], "capacity": len(x)}
    run(row, threads=threads, x=x, weight=packed, bias=None, y=y, accumulate=0, **shape)
    return y


def as_seen(row: KernelRow, weight: np.ndarray) -> np.ndarray:
    """f64 weights as the row multiplies them: bf16w rows round them."""
    return (widen_bf16(round_bf16(weight)) if row.activation == "bf16w" else weight).astype(np.float64)


def bound(row: KernelRow, x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """generic.h: 2^-24 (J + 20) sum |x| (|scale * code| + |offset|); offsets of these tests are at most 3 largest weights."""
    links = x.shape[1] // 16 * 2 + 3
    magnitude = np.abs(x) @ np.abs(weight).T
    if "o" in row.scheme:
        magnitude = magnitude + 6 * np.abs(x).sum(axis=1, keepdims=True) * np.abs(weight).max()
    return UNIT * (links + 20) * magnitude


@by_name
def test_matches_f64_of_the_rounded_x(row: KernelRow) -> None:
    need(row)
    k_last = column_sizes(row.scheme)[0]
    cases = [(m, 40, k_last) for m in (1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, 5 * BLOCK + 2)]
    cases += [
        (3, n, k) for n in (1, PANEL - 1, PANEL, PANEL + 1, 3 * PANEL) for k in column_sizes(row.scheme)
    ]
    for m, n, k in cases:
        packed, weight = packed_case(row, n, k)
        x = activations(m, k)
        seen, w = widen_bf16(round_bf16(x)).astype(np.float64), as_seen(row, weight)
        assert_close(apply(row, x, packed, n), seen @ w.T, bound(row, seen, w), f"{row.name} {m}x{n}x{k}")


@by_name
def test_is_as_exact_as_f32_accumulation(row: KernelRow) -> None:
    """At most 1.2 times the error of one f32 chain over k with the same rounded x (root mean square over the outputs)."""
    need(row)
    k = column_sizes(row.scheme)[2 if row.scheme not in PLAIN and not row.scheme.endswith("t") else 1]
    packed, weight = packed_case(row, 64, k)
    x, weight = widen_bf16(round_bf16(activations(24, k))), as_seen(row, weight).astype(np.float32)
    exact = x.astype(np.float64) @ weight.astype(np.float64).T
    chain = np.cumsum(x[:, None, :] * weight[None], axis=2, dtype=np.float32)[:, :, -1]
    ours = np.sqrt(np.mean((apply(row, x, packed, 64) - exact) ** 2))
    theirs = np.sqrt(np.mean((chain - exact) ** 2))
    assert ours <= 1.2 * theirs, f"{row.name}: {ours:.3g} against {theirs:.3g}"


@by_name
def test_every_code_is_exact(row: KernelRow) -> None:
    """x = 2^j e_k picks single weights: the answer is the dequantized weight itself, up to the offset's rounding."""
    need(row)
    k = column_sizes(row.scheme)[0]
    tensor = random_tensor(row.scheme, 33, k, seed=5)
    packed, weight = pack(tensor), as_seen(row, dequantize(tensor)).astype(np.float32)
    x = np.zeros((k, k), np.float32)
    np.fill_diagonal(x, 4.0)
    assert_same_bits(
        apply(row, x, packed, 33) + np.float32(0), (4 * weight.T).astype(np.float32) + np.float32(0), row.name
    )


@by_name
def test_rows_do_not_depend_on_their_company(row: KernelRow) -> None:
    need(row)
    k = column_sizes(row.scheme)[1]
    packed, _ = packed_case(row, 70, k)
    x = activations(3 * BLOCK + 5, k)
    whole = apply(row, x, packed, 70)
    for m in (1, 9, BLOCK, BLOCK + 3, 2 * BLOCK):
        assert_same_bits(apply(row, x[:m].copy(), packed, 70), whole[:m], f"{row.name}, first {m} rows")
    assert_same_bits(apply(row, x[5:].copy(), packed, 70), whole[5:], f"{row.name}, rows from 5")
    for threads in (2, 3, 5):
        assert_same_bits(apply(row, x, packed, 70, threads), whole, f"{row.name}, {threads} threads")


@pytest.mark.parametrize("row", LARGE, ids=lambda row: row.name)
def test_many_rows_and_panel_groups(row: KernelRow) -> None:
    """More rows than a piece, and for some K several chunks, so that panels go in groups and sums wait."""
    need(row)
    n, k = 5 * PANEL, LONG[row.scheme]
    packed, _ = packed_case(row, n, k)
    x = activations(32 * BLOCK + 1, k)
    whole = apply(row, x, packed, n)
    for rows in (slice(0, 17), slice(500, 513)):
        assert_same_bits(apply(row, x[rows].copy(), packed, n), whole[rows], f"{row.name}, rows {rows}")
    assert_same_bits(apply(row, x, packed, n, threads=3), whole, f"{row.name}, 3 threads")


@by_name
def test_hardware_and_emulation_give_the_same_bits(row: KernelRow) -> None:
    if not row.emulates:
        need(row)
        emulation = next(r for r in ROWS if r.emulates == row.name)
        k = column_sizes(row.scheme)[1]
        packed, _ = packed_case(row, 40, k)
        x = activations(BLOCK + 3, k)
        x[0, :3] = 1e-39, -1e-39, 2.0**-126  # subnormals count as zero on both
        assert_same_bits(apply(row, x, packed, 40), apply(emulation, x, packed, 40), row.name)


@by_name
def test_bias_residual_and_strides(row: KernelRow) -> None:
    need(row)
    k, n = column_sizes(row.scheme)[0], 45
    packed, _ = packed_case(row, n, k)
    x, rng = activations(5, k), np.random.default_rng(3)
    bias, residual = rng.standard_normal(n, np.float32), rng.standard_normal((5, n), np.float32)
    plain = apply(row, x, packed, n)
    wide = np.full((5, n + 19), 9.0, np.float32)
    wide[:, :n] = residual
    run(row, x=x, weight=packed, bias=bias, y=wide, rows=5, n=n, k=k, accumulate=1, capacity=5)
    assert_same_bits(wide[:, :n].copy(), residual + (plain + bias), row.name)
    assert (wide[:, n:] == 9).all()


@by_name
def test_not_finite_activations_reach_their_row_only(row: KernelRow) -> None:
    need(row)
    k = column_sizes(row.scheme)[0]
    packed, _ = packed_case(row, 40, k)
    x = activations(4, k)
    clean = apply(row, x, packed, 40)
    x[1, 7], x[2, k - 1] = np.nan, np.inf
    y = apply(row, x, packed, 40)
    assert np.isnan(y[1]).all() and not np.isfinite(y[2]).any()
    assert_same_bits(y[[0, 3]], clean[[0, 3]], row.name)


def test_every_row_has_its_emulation() -> None:
    hardware = {row.name for row in ROWS if not row.emulates}
    assert hardware == {row.emulates for row in ROWS if row.emulates}
    compiled = set(library.row_names())
    assert {row.name for row in ROWS if row.emulates} <= compiled
