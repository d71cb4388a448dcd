"""rope and rope_angles rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cpu.rows import assert_close, assert_same_bits, need, rows_of, run

U = 2.0**-24
ROWS = rows_of("rope")
SHAPES = ((1, 16, 16), (3, 64, 64), (2, 128, 32), (9, 64, 48), (1, 80, 20))  # heads, head_dim, rotary_dim


def angles(
    positions: np.ndarray, inv_freq: np.ndarray, scale: float = 1.0, threads: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    cos, sin = np.zeros((2, len(positions), len(inv_freq)), np.float32)
    run(
        "rope_angles_f32_scalar",
        threads=threads,
        positions=positions,
        inv_freq=inv_freq,
        cos=cos,
        sin=sin,
        rows=len(positions),
        half_dim=len(inv_freq),
        scale=scale,
    )
    return cos, sin


def frequencies(rotary_dim: int) -> np.ndarray:
    return (10000.0 ** (-np.arange(0, rotary_dim, 2) / rotary_dim)).astype(np.float32)


def rotate(
    row, x: np.ndarray, shape: tuple[int, int, int], cos: np.ndarray, sin: np.ndarray, threads: int = 1
) -> np.ndarray:
    y = x.copy()
    run(
        row,
        threads=threads,
        x=y,
        cos=cos,
        sin=sin,
        rows=len(x),
        heads=shape[0],
        head_dim=shape[1],
        rotary_dim=shape[2],
    )
    return y


def test_angles_are_exact_products_evaluated_in_double():
    positions = np.array([0, 1, 5, 131071, 2**24 + 1], np.int32)
    inv_freq = frequencies(64)
    for scale in (1.0, 1.3465735):
        angle = (positions.astype(np.float32)[:, None] * inv_freq).astype(np.float64)
        for found, function in zip(angles(positions, inv_freq, scale), (np.cos, np.sin)):
            expected = function(angle) * np.float64(np.float32(scale))
            assert_close(found, expected, U * np.abs(expected) + 1e-15, function.__name__)
    assert_same_bits(angles(positions, inv_freq, threads=3)[0], angles(positions, inv_freq)[0], "threads")


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_values_and_bits(row, shape):
    need(row)
    heads, head_dim, rotary_dim = shape
    x = np.random.default_rng(0).standard_normal((5, heads * head_dim), np.float32)
    cos, sin = angles(np.array([0, 1, 7, 100, 4095], np.int32), frequencies(rotary_dim))
    y = rotate(row, x, shape, cos, sin)
    half = rotary_dim // 2
    wide = x.reshape(5, heads, head_dim).astype(np.float64)
    x1, x2, c, s = (
        wide[..., :half],
        wide[..., half:rotary_dim],
        cos[:, None].astype(np.float64),
        sin[:, None].astype(np.float64),
    )
    expected, bound = wide.copy(), np.zeros_like(wide)
    expected[..., :half], expected[..., half:rotary_dim] = x1 * c - x2 * s, x2 * c + x1 * s
    # one product and one fma: a rounding of the product and one of the result
    bound[..., :half] = bound[..., half:rotary_dim] = (
        2 * U * (np.abs(x1 * c) + np.abs(x2 * s) + np.abs(x2 * c) + np.abs(x1 * s))
    )
    assert_close(y, expected.reshape(5, -1), bound.reshape(5, -1), row.name)
    assert_same_bits(y, rotate("rope_f32_scalar", x, shape, cos, sin, threads=2), row.name)
