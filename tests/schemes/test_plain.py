"""Plain floats against ml_dtypes, on every bit pattern of 16 bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from fewbit.schemes.arrays import round_bf16, widen_bf16
from fewbit.schemes.plain.scheme import BF16, F16
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.scheme import QuantTensor

EVERY = np.arange(1 << 16, dtype=np.uint16)


def test_every_bf16_widens_exactly() -> None:
    expected = EVERY.view(ml_dtypes.bfloat16).astype(np.float32)
    assert widen_bf16(EVERY).tobytes() == expected.tobytes()


def test_every_f16_widens_exactly() -> None:
    tensor = QuantTensor(F16, (256, 256), {"codes": EVERY.view(np.float16).reshape(256, 256)})
    assert np.array_equal(
        dequantize(tensor).reshape(-1), EVERY.view(np.float16).astype(np.float32), equal_nan=True
    )


def test_rounding_to_bf16_is_to_nearest_even() -> None:
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 1 << 32, 1 << 16, dtype=np.uint32)
    ties = (EVERY.astype(np.uint32) << 16) | 0x8000
    values = np.concatenate([bits, ties, ties - 1, ties + 1]).view(np.float32)
    with np.errstate(invalid="ignore"):
        expected = values.astype(ml_dtypes.bfloat16).view(np.uint16)
    found = round_bf16(values)
    number = ~np.isnan(values)
    assert np.array_equal(found[number], expected[number])
    assert np.isnan(widen_bf16(found[~number])).all()


def test_bf16_round_trip() -> None:
    weight = widen_bf16(EVERY[: 1 << 15][np.isfinite(widen_bf16(EVERY[: 1 << 15]))].reshape(1, -1))
    assert np.array_equal(dequantize(quantize(weight, BF16)), weight)
