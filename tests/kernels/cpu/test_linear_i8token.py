"""linear with 8-bit activations, one scale a row: against exact integers in numpy, and the same bits on every instruction set, at any
M and thread count."""

from __future__ import annotations

import numpy as np
import pytest

from fewbit.kernels.cpu import library
from fewbit.kernels.ops.input_codes import ASYMMETRIC, DYNAMIC, FIXED, NONE, UNSAID, InputCodes, quantize_rows
from fewbit.layouts import layout
from fewbit.layouts.n32parts.reference import pack
from fewbit.layouts.n32parts.rows import row_parts
from fewbit.schemes.arrays import widen_bf16
from fewbit.schemes.named import named
from fewbit.spec.cell import KernelRow
from fewbit.spec.scheme import QuantTensor
from tests.kernels.cpu.rows import assert_same_bits, need, rows_of, run
from tests.matrix.named import random_tensor

ROWS = rows_of("linear", activation="i8token")
WHOLE = (
    "i8channel",
    "i8g128",
    "i8g32z",
    "u8channelz",
    "i4g128",
    "i4g32",
    "u4g64z",
    "u4g128o",
    "i4channelz",
    "i3g64",
    "i2g32z",
    "u5g64o",
    "u6g32o",
)
KINDS = (
    InputCodes(),
    InputCodes(DYNAMIC, 127.5),
    InputCodes(ASYMMETRIC),
    InputCodes(FIXED, 0.02, 0),
    InputCodes(FIXED, 0.031, -128),
    InputCodes(FIXED, 0.031, 127),
)
M_SIZES = (1, 2, 3, 4, 7, 15, 16, 17, 31, 33, 70)
UNIT = 2.0**-24


def rows_for(scheme: str) -> list[KernelRow]:
    """Scalar first; those that this machine runs."""
    found = (row for row in ROWS if row.scheme == scheme and row.requires <= library.cpu_features())
    return sorted(found, key=lambda row: (row.priority, bool(row.emulates)))


def weight_of(scheme: str, n: int, k: int, seed: int = 0, scale: str = "") -> QuantTensor:
    row = next(row for row in ROWS if row.scheme == scheme)
    return random_tensor(
        named(scheme, scale or row.scale_dtypes[0], k), n, k, np.random.default_rng([seed, n, k])
    )


def packed_of(tensor: QuantTensor) -> np.ndarray:
    packed = pack(tensor, layout("n32parts", tensor.scheme))
    aligned = np.zeros(packed.size + 64, np.uint8)
    start = -aligned.ctypes.data % 64
    aligned[start : start + packed.size] = packed
    return aligned[start : start + packed.size]


def activations(m: int, k: int, seed: int = 1) -> np.ndarray:
    x = np.random.default_rng([seed, m, k]).standard_normal((m, k), np.float32)
    x[:, :: max(k // 3, 1)] *= 8
    return x + np.float32(0.5)


def apply(
    row: KernelRow,
    x: np.ndarray,
    packed: np.ndarray,
    n: int,
    inputs: InputCodes = UNSAID,
    threads: int = 1,
) -> np.ndarray:
    y = np.full((len(x), n), 7.0, np.float32)
    shape = {"rows": len(x), "n": n, "k": x.shape[1], "capacity": len(x)}
    run(row, threads=threads, x=x, weight=packed, bias=None, y=y, accumulate=0, **shape, **inputs.numbers())
    return y


def expected(x: np.ndarray, tensor: QuantTensor, inputs: InputCodes) -> tuple[np.ndarray, np.ndarray]:
    """(y, how far f32 may be from it), f64, of integers summed exactly group by group."""
    codes, scales, zeros = quantize_rows(x, inputs.kind, inputs.scale, inputs.zero)
    whole = np.where((scales > 0)[:, None], codes.astype(np.int64) - zeros[:, None], 0)
    parts, (n, k) = row_parts(tensor), tensor.shape
    wide = widen_bf16 if tensor.scheme.scale.name == "bf16" else (lambda part: part.astype(np.float32))
    scale, groups = wide(parts.scale).astype(np.float64), parts.scale.shape[1]
    step = k if groups == 1 else tensor.scheme.granularity.k
    y, size = np.zeros((len(x), n)), np.zeros((len(x), n))
    for g in range(groups):
        at = slice(g * step, (g + 1) * step)
        weights = parts.codes[:, at].astype(np.int64)
        if tensor.scheme.zero_point:
            weights = weights - parts.extra[:, g : g + 1].astype(np.int64)
        term = (whole[:, at] @ weights.T) * scale[:, g]
        if tensor.scheme.offset:
            more = whole[:, at].sum(axis=1)[:, None] * wide(parts.extra)[:, g].astype(np.float64)
            size += np.abs(more)
            term = term + more
        y, size = y + term, size + np.abs(whole[:, at]) @ np.abs(weights).T * np.abs(scale[:, g])
    return y * scales[:, None].astype(np.float64), UNIT * (3 * groups + 4) * 2 * size * np.abs(scales)[
        :, None
    ]


@pytest.mark.parametrize("inputs", KINDS, ids=str)
@pytest.mark.parametrize("scheme", WHOLE)
def test_exact_sums_and_the_same_bits_everywhere(scheme: str, inputs: InputCodes) -> None:
    first, *others = rows_for(scheme)
    unit = max(named(scheme, first.scale_dtypes[0], 32).block_k, 32)
    for n, k, counts in ((70, 3 * unit, M_SIZES), (33, 1024 + unit, (1, 5, 18)), (1, unit, (1, 16))):
        tensor = weight_of(scheme, n, k, seed=len(first.name))
        packed = packed_of(tensor)
        whole = None
        for m in sorted(counts, reverse=True):
            x = activations(max(counts), k)[:m].copy()
            found = apply(first, x, packed, n, inputs)
            exact, allowed = expected(x, tensor, inputs)
            assert (np.abs(found - exact) <= allowed).all(), (m, n, k, np.abs(found - exact).max())
            whole = found if whole is None else whole
            assert_same_bits(found, whole[:m], f"{first.name} at M={m} beside M={len(whole)}")
            for row in others:
                threads = 1 + m % 3
                assert_same_bits(
                    apply(row, x, packed, n, inputs, threads), found, f"{row.name} at M={m} N={n} K={k}"
                )


@pytest.mark.parametrize("row", [row for row in ROWS if row.scheme in WHOLE], ids=lambda row: row.name)
def test_extremes_do_not_saturate(row: KernelRow) -> None:
    """All codes and activations at their ends, in every combination of signs, over many K."""
    need(row)
    k = 1024
    for end in (0, 1, 2):
        tensor = weight_of(row.scheme, 33, k)
        codes, element = tensor.parts["codes"], tensor.scheme.codes
        codes[:] = (element.lowest, element.highest, 0)[end]
        if end == 2:
            codes[:, ::2], codes[:, 1::2] = element.lowest, element.highest
        packed = packed_of(tensor)
        for inputs in (
            InputCodes(),
            InputCodes(FIXED, 1.0, 0),
            InputCodes(FIXED, 1.0, -128),
            InputCodes(ASYMMETRIC),
        ):
            for low, high in ((-128, -128), (127, 127), (-128, 127)):
                x = np.full((2, k), low, np.float32)
                x[:, 1::2] = high
                exact, allowed = expected(x, tensor, inputs)
                found = apply(row, x, packed, 33, inputs)
                assert (np.abs(found - exact) <= allowed).all(), (
                    end,
                    inputs,
                    low,
                    high,
                    np.abs(found - exact).max(),
                )


@pytest.mark.parametrize("row", [row for row in ROWS if row.scheme == "i8channel"], ids=lambda row: row.name)
def test_the_longest_rows_fit_in_32_bits(row: KernelRow) -> None:
    need(row)
    (limit,) = [c.most for c in row.constraints if c.axis == "k"]
    k = min(limit, 65536)
    tensor = weight_of("i8channel", 2, k)
    tensor.parts["codes"][0], tensor.parts["codes"][1] = -128, 127
    packed = packed_of(tensor)
    x = np.full((1, k), 127.0, np.float32)
    for inputs in (InputCodes(), InputCodes(FIXED, 1.0, -128)):
        exact, allowed = expected(x, tensor, inputs)
        assert (np.abs(apply(row, x, packed, 2, inputs) - exact) <= allowed).all()


@pytest.mark.parametrize("row", [row for row in ROWS if row.scheme in WHOLE], ids=lambda row: row.name)
def test_zero_tiny_and_not_finite_rows(row: KernelRow) -> None:
    need(row)
    k = 256
    packed = packed_of(weight_of(row.scheme, 40, k))
    for kind in (NONE, ASYMMETRIC):
        x = np.zeros((7, k), np.float32)
        x[1, 3] = -0.0
        x[2] = 2.0**-120
        x[3, 5], x[4, 40], x[5, k - 1], x[6] = np.nan, np.inf, -np.inf, 3e38
        y = apply(row, x, packed, 40, InputCodes(kind))
        assert not y[:3].any()
        assert np.isnan(y[3:6]).all(), "an infinity or NaN must reach every output of its row"
        assert not np.isnan(y[6]).any()
    y = apply(row, x, packed, 40, InputCodes(FIXED, 0.1, 3))
    assert np.isnan(y[3:6]).all() and np.isfinite(y[:3]).all()


@pytest.mark.parametrize("scale", ["f16", "bf16", "f32"])
def test_every_type_of_scale(scale: str) -> None:
    for scheme in ("i8channel", "i4g128"):
        tensor = weight_of(scheme, 45, 384, scale=scale)
        x = activations(5, 384)
        exact, allowed = expected(x, tensor, InputCodes())
        for row in rows_for(scheme):
            assert (np.abs(apply(row, x, packed_of(tensor), 45) - exact) <= allowed).all(), row.name


@pytest.mark.parametrize(
    "row", [row for row in ROWS if row.scheme in ("i8channel", "u4g128z")], ids=lambda row: row.name
)
def test_bias_residual_and_strides(row: KernelRow) -> None:
    need(row)
    k, n = 256, 45
    packed = packed_of(weight_of(row.scheme, n, k))
    wide, rng = activations(5, k + 8), np.random.default_rng(3)
    bias, residual = rng.standard_normal(n, np.float32), rng.standard_normal((5, n), np.float32)
    plain = apply(row, wide[:, :k].copy(), packed, n)
    y = np.full((5, 64), 9.0, np.float32)
    y[:, :n] = residual
    run(
        row,
        x=wide[:, :k],
        x_stride=k + 8,
        weight=packed,
        bias=bias,
        y=y[:, :n],
        y_stride=64,
        rows=5,
        n=n,
        k=k,
        accumulate=1,
        capacity=5,
    )
    assert_same_bits(y[:, :n].copy(), residual + (plain + bias), row.name)
    assert (y[:, n:] == 9).all()
