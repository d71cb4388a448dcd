"""Every code of every small float against ml_dtypes, and rounding to the nearest one, ties included."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from fewbit.registry.grammar import SCHEME
from fewbit.schemes.floats.table import largest, nearest, values
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec import dtype
from fewbit.spec.granularity import CHANNEL, TENSOR, block, group
from fewbit.spec.scheme import QuantTensor, Scheme

THEIRS = {
    "e4m3": ml_dtypes.float8_e4m3fn, "e4m3fnuz": ml_dtypes.float8_e4m3fnuz, "e5m2": ml_dtypes.float8_e5m2,
    "e5m2fnuz": ml_dtypes.float8_e5m2fnuz, "e8m0": ml_dtypes.float8_e8m0fnu, "e2m3": ml_dtypes.float6_e2m3fn,
    "e3m2": ml_dtypes.float6_e3m2fn, "e2m1": ml_dtypes.float4_e2m1fn,
}  # fmt: skip


@pytest.mark.parametrize("name", THEIRS)
def test_every_code(name: str) -> None:
    codes = np.arange(1 << dtype.dtype(name).bits, dtype=np.uint8)
    expected = codes.view(THEIRS[name]).astype(np.float32)
    found = values(name)
    number = ~np.isnan(expected)
    assert np.array_equal(np.isnan(found), ~number)
    assert found[number].tobytes() == expected[number].tobytes()  # signs of zero too


@pytest.mark.parametrize("name", [name for name in THEIRS if name != "e8m0"])
def test_rounding_is_to_nearest_even_and_saturates(name: str) -> None:
    table = values(name)
    finite = np.unique(table[np.isfinite(table)])
    middles = (finite[1:].astype(np.float64) + finite[:-1]) / 2
    wanted = np.concatenate([finite, middles, np.nextafter(middles, -np.inf), np.nextafter(middles, np.inf)])
    wanted = wanted.astype(np.float32)
    wanted = wanted[np.abs(wanted) <= largest(name)]
    expected = wanted.astype(THEIRS[name]).astype(np.float32)
    assert np.array_equal(values(name)[nearest(wanted, name)], expected)
    assert values(name)[nearest(np.float32([1e30, -np.inf]), name)].tolist() == [
        largest(name),
        -largest(name),
    ]
    back = nearest(table[np.isfinite(table)], name)
    assert np.array_equal(back, np.arange(len(table))[np.isfinite(table)])


def test_a_nan_needs_a_code() -> None:
    assert np.isnan(values("e4m3")[nearest(np.float32([np.nan]), "e4m3")])
    with pytest.raises(ValueError, match="e2m1 has no NaN"):
        nearest(np.float32([np.nan]), "e2m1")


FLOATS = [
    Scheme(dtype.E4M3, block(128, 128), dtype.F32),
    Scheme(dtype.E4M3, CHANNEL, dtype.BF16),
    Scheme(dtype.E5M2, TENSOR, dtype.F32),
    Scheme(dtype.E4M3, group(32), dtype.E8M0),
    Scheme(dtype.E2M1, group(32), dtype.E8M0),
    Scheme(dtype.E2M3, group(32), dtype.E8M0),
    Scheme(dtype.E3M2, group(32), dtype.E8M0),
    Scheme(dtype.E2M1, group(16), dtype.E4M3, global_scale=dtype.F32),
]


@pytest.mark.parametrize("scheme", FLOATS, ids=str)
def test_quantizing_errs_by_half_a_step(scheme: Scheme) -> None:
    weight = np.random.default_rng(0).standard_normal((160, 192)).astype(np.float32)
    found = dequantize(quantize(weight, scheme))
    mantissa = int(scheme.codes.name[3])
    saturates = (
        0.26 if scheme.scale == dtype.E8M0 else 0.0
    )  # a power of two may put the largest above the top code
    assert (np.abs(found - weight) / np.abs(weight).max()).max() <= 2.0 ** -(mantissa + 1) + 0.04 + saturates
    assert np.corrcoef(found.reshape(-1), weight.reshape(-1))[0, 1] > 0.98


@pytest.mark.parametrize("scheme", FLOATS, ids=str)
def test_the_formula(scheme: Scheme) -> None:
    tensor = quantize(np.random.default_rng(1).standard_normal((130, 160)).astype(np.float32), scheme)
    weight, g = dequantize(tensor), scheme.granularity
    for i, j in ((0, 0), (129, 159), (128, 127), (7, 33)):
        at = {"tensor": (0,), "channel": (i, 0), "group": (i, j // max(g.k, 1)), "block": (i // max(g.n, 1), j // max(g.k, 1))}[g.sharing]  # fmt: skip
        assert scheme.scale is not None
        stored = tensor.parts["scale"][at]
        name = scheme.scale.name
        scale = values(name)[stored] if name in THEIRS else np.float32(stored) if name != "bf16" else (np.uint32(stored) << 16).view(np.float32)  # fmt: skip
        if scheme.global_scale:
            scale = scale * tensor.parts["global_scale"][0]
        assert weight[i, j] == values(scheme.codes.name)[tensor.parts["codes"][i, j]] * scale


def test_codebook_index_and_mask() -> None:
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 16, (4, 64)).astype(np.uint8)
    book, scale = rng.standard_normal(16).astype(np.float32), rng.standard_normal((4, 2)).astype(np.float32)
    nf4 = Scheme(dtype.U4, group(32), dtype.F32, codebook=dtype.F32)
    found = dequantize(QuantTensor(nf4, (4, 64), {"codes": codes, "scale": scale, "codebook": book}))
    assert np.array_equal(found, book[codes] * np.repeat(scale, 32, axis=1))
    index = rng.permutation(64).astype(np.int32) // 32
    ordered = Scheme(dtype.U4, group(32), dtype.F32, zero_point=dtype.U4, group_index=True)
    zero = rng.integers(0, 16, (4, 2)).astype(np.uint8)
    parts = {"codes": codes, "scale": scale, "zero_point": zero, "group_index": index}
    found = dequantize(QuantTensor(ordered, (4, 64), parts))
    assert np.array_equal(found, (codes.astype(np.float32) - zero[:, index]) * scale[:, index])
    sparse = Scheme(dtype.E4M3, CHANNEL, dtype.F32, mask=True)
    mask = rng.integers(0, 2, (4, 64)).astype(np.uint8)
    found = dequantize(QuantTensor(sparse, (4, 64), {"codes": codes, "scale": scale[:, :1], "mask": mask}))
    assert np.array_equal(found, np.where(mask, values("e4m3")[codes] * scale[:, :1], 0))
    assert [s.name for s in (nf4, ordered, sparse)] == ["u4g32c", "u4g32zi", "e4m3channelm"]
    for scheme in (nf4, ordered, sparse, *FLOATS):
        assert SCHEME.fullmatch(scheme.name), scheme
