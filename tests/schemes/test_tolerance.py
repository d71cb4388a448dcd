"""The tolerances hold for honest arithmetic and fail for the mistakes that kernels make."""

from __future__ import annotations

import numpy as np
import pytest

from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.arrays import round_bf16, widen_bf16
from fewbit.schemes.reference import dequantize, quantize
from fewbit.schemes.tolerance import linear_tolerance

M, N, K = 8, 64, 512


@pytest.fixture
def operands():
    rng = np.random.default_rng(0)
    weight = dequantize(quantize(rng.standard_normal((N, K)).astype(np.float32), U4G32O))
    x = rng.standard_normal((M, K)).astype(np.float32)
    return x, weight, x.astype(np.float64) @ weight.T.astype(np.float64)


def in_eight_bits(x):
    groups = x.reshape(M, -1, 32)
    step = np.abs(groups).max(axis=2, keepdims=True) / np.float32(127)
    return (np.rint(groups / step) * step).reshape(M, K)


def test_honest_rounding_is_within(operands) -> None:
    x, weight, exact = operands
    chain = np.zeros((M, N), np.float32)
    for k in range(K):
        chain += x[:, k : k + 1] * weight[:, k]
    assert linear_tolerance(x, weight, "f32").check(chain, exact) == ""
    rounded = widen_bf16(round_bf16(x))
    assert linear_tolerance(x, weight, "bf16").check(rounded @ weight.T, exact) == ""
    both = rounded @ widen_bf16(round_bf16(weight)).T
    assert linear_tolerance(x, weight, "bf16w").check(both, exact) == ""
    assert linear_tolerance(x, weight, "i8g32").check(in_eight_bits(x) @ weight.T, exact) == ""


def test_roundings_that_all_go_one_way_are_within() -> None:
    """Just below the middle of two bf16 numbers, at a power of two, where half a step is most."""
    x, weight = (np.full((rows, K), 1 + 2.0**-8 - 2.0**-20, np.float32) for rows in (M, N))
    exact, rounded = x.astype(np.float64) @ weight.T, np.full((M, N), float(K))
    assert np.abs(linear_tolerance(x, weight, "bf16w").worst / (exact - rounded) - 1).max() < 0.02
    assert (np.abs(exact - rounded) <= linear_tolerance(x, weight, "bf16w").worst).all()
    assert (np.abs(exact - rounded) > linear_tolerance(x, weight, "bf16").worst).all()


def test_a_coarser_kernel_is_outside(operands) -> None:
    x, weight, exact = operands
    in_bf16 = widen_bf16(round_bf16(x)) @ widen_bf16(round_bf16(weight)).T
    assert "expected" in linear_tolerance(x, weight, "f32").check(in_bf16, exact)
    assert "rms" in linear_tolerance(x, weight, "bf16").check(in_eight_bits(x) @ weight.T, exact)


@pytest.mark.parametrize("activation", ["f32", "bf16", "i8g32"])
def test_mistakes_are_outside(operands, activation: str) -> None:
    x, weight, exact = operands
    tolerance = linear_tolerance(x, weight, activation)
    swapped = weight.reshape(N, -1, 2)[:, :, ::-1].reshape(N, K)
    assert tolerance.check((x @ swapped.T).astype(np.float32), exact)
    one_missing = exact - x[:, :1] * weight[:, 0].astype(np.float64) * (np.arange(N) == 3)
    if activation == "f32":
        assert ",3] = " in tolerance.check(one_missing, exact)
    broken = exact.copy()
    broken[1, 2] = np.nan
    assert tolerance.check(broken, exact).startswith("y[1,2] = nan")


def test_an_unknown_activation_is_refused() -> None:
    with pytest.raises(ValueError, match="known: f32, bf16, bf16w, i8g32"):
        linear_tolerance(np.ones((1, 32)), np.ones((1, 32)), "f8")
