"""The reference of the affine schemes against its definition, written out element by element."""

from __future__ import annotations

import numpy as np
import pytest

from fewbit.schemes import SCHEMES
from fewbit.schemes.affine.scheme import SCHEMES as AFFINE
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.arrays import array_dtype
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec import dtype
from fewbit.spec.granularity import CHANNEL, TENSOR, block, group
from fewbit.spec.scheme import QuantTensor, Scheme


def random_tensor(scheme: Scheme, n: int, k: int, seed: int = 0) -> QuantTensor:
    rng = np.random.default_rng(seed)
    parts = {}
    types = scheme.part_dtypes()
    for role, shape in scheme.part_shapes(n, k).items():
        element = types[role]
        if element.is_float:
            parts[role] = rng.standard_normal(shape).astype(array_dtype(element))
        else:
            parts[role] = rng.integers(element.lowest, element.highest + 1, shape).astype(
                array_dtype(element)
            )
    return QuantTensor(scheme, (n, k), parts)


@pytest.mark.parametrize("scheme", AFFINE, ids=str)
def test_every_weight_is_the_formula_in_f32(scheme: Scheme) -> None:
    n, k = 3, 512
    tensor = random_tensor(scheme, n, k)
    p = tensor.parts
    expected = np.empty((n, k), np.float32)
    for i in range(n):
        for j in range(k):
            g = j // scheme.granularity.k
            scale = np.float32(p["scale"][i, g])
            offset = np.float32(p["offset"][i, g]) if scheme.offset else None
            if scheme.super_scale:
                scale *= np.float32(p["super_scale"][i, j // 256])
                if offset is not None:
                    offset = -(offset * np.float32(p["super_offset"][i, j // 256]))
            weight = np.float32(p["codes"][i, j]) * scale
            expected[i, j] = weight if offset is None else weight + offset
    assert dequantize(tensor).tobytes() == expected.tobytes()


@pytest.mark.parametrize("granularity", [TENSOR, CHANNEL, group(32), block(2, 64)], ids=str)
def test_zero_points_at_every_granularity(granularity) -> None:
    scheme = Scheme(dtype.U4, granularity, scale=dtype.F32, zero_point=dtype.U4)
    tensor = random_tensor(scheme, 5, 128)
    codes, weight = tensor.parts["codes"], dequantize(tensor)
    for i, j in ((0, 0), (4, 127), (3, 64), (2, 31)):
        at = {"tensor": (0,), "channel": (i, 0), "group": (i, j // 32), "block": (i // 2, j // 64)}[
            granularity.sharing
        ]
        scale, zero = tensor.parts["scale"][at], tensor.parts["zero_point"][at]
        assert weight[i, j] == np.float32(int(codes[i, j]) - int(zero)) * scale


def test_a_group_of_scale_zero_is_its_offset() -> None:
    parts = {"codes": np.full((1, 32), 9, np.uint8), "scale": np.zeros((1, 1), np.float16),
             "offset": np.full((1, 1), -0.75, np.float16)}  # fmt: skip
    assert (dequantize(QuantTensor(U4G32O, (1, 32), parts)) == -0.75).all()


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=str)
def test_quantizing_errs_by_at_most_one_step(scheme: Scheme) -> None:
    weight = np.random.default_rng(1).standard_normal((4, 512)).astype(np.float32)
    tensor = quantize(weight, scheme)
    error = np.abs(dequantize(tensor) - weight)
    if scheme.is_plain:
        assert error.max() <= {"f32": 0.0, "f16": 2.0**-10, "bf16": 2.0**-7}[scheme.name]
        return
    spread = np.ptp(weight.reshape(4, -1, scheme.granularity.k), axis=2).max()
    steps = scheme.codes.highest - scheme.codes.lowest
    # A two-level scale is rounded to 1/63 (u6), 1/32 (i6), 1/15 (u4) or 1/128 of the largest: one step more over all codes.
    slack = {"u2g16ot": 1.0, "i3g16t": 0.7}.get(scheme.name, 0.8 if scheme.super_scale else 0.55)
    assert error.max() <= 2 * slack * spread / steps + spread * 2.0**-9
    assert error.max() > 0


@pytest.mark.parametrize("scheme", AFFINE, ids=str)
def test_quantizing_zeros_and_what_is_quantized_already(scheme: Scheme) -> None:
    assert not dequantize(quantize(np.zeros((2, 256), np.float32), scheme)).any()
    once = dequantize(quantize(np.random.default_rng(2).standard_normal((2, 256)).astype(np.float32), scheme))
    again = dequantize(quantize(once, scheme))
    assert np.abs(again - once).max() <= 0.12 * np.abs(once).max()


def test_a_wrong_extent_is_refused() -> None:
    with pytest.raises(ValueError, match="K=48 is not a multiple of 32"):
        quantize(np.zeros((1, 48), np.float32), U4G32O)
