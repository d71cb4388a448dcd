"""Schemes rewritten as others: the same numbers to the bit, or the reason why not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fewbit.convert.rewrite import Inexact, prove, rewrite
from fewbit.convert.variants import variants
from fewbit.schemes import SCHEMES
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec import dtype
from fewbit.spec.dtype import BF16, E2M1, E4M3, E4M3FNUZ, E8M0, F16, F32, I4, I5, I8, U4
from fewbit.spec.granularity import CHANNEL, TENSOR, block, group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.convert.folders import same_bits

I4G128 = Scheme(I4, group(128), F16)
U4G128Z = Scheme(U4, group(128), F16, zero_point=U4)


def tensor(scheme: Scheme, n: int = 32, k: int = 256, seed: int = 0) -> QuantTensor:
    weight = np.random.default_rng(seed).standard_normal((n, k)).astype(np.float32)
    return quantize(weight, scheme)


EXACT = {
    "symmetric as zero point 8": (I4G128, U4G128Z),
    "wider codes": (I4G128, Scheme(I8, group(128), F16)),
    "smaller groups": (I4G128, Scheme(I4, group(32), F16)),
    "rows as groups": (Scheme(I8, CHANNEL, F32), Scheme(I8, group(64), F32)),
    "a tensor as rows": (Scheme(E4M3, TENSOR, F32), Scheme(E4M3, CHANNEL, F32)),
    "a tensor as blocks": (Scheme(E4M3, TENSOR, F32), Scheme(E4M3, block(128, 128), F32)),
    "blocks as groups": (Scheme(E4M3, block(16, 128), F32), Scheme(E4M3, group(32), F32)),
    "f16 scales as f32": (I4G128, Scheme(I4, group(128), F32)),
    "zero points as codes one bit wider": (U4G128Z, Scheme(I5, group(128), F16)),
    "unsigned as signed with zero points": (
        Scheme(dtype.U8, CHANNEL, F32, zero_point=dtype.U8),
        Scheme(I8, CHANNEL, F32, zero_point=I8),
    ),
    "two levels as one": (SCHEMES["u4g32ot"], Scheme(U4, group(32), F32, offset=F32)),
    "two signed levels as one": (SCHEMES["i6g16t"], Scheme(dtype.I6, group(16), F32)),
    "no global scale as 1": (Scheme(E2M1, group(16), E4M3), Scheme(E2M1, group(16), E4M3, global_scale=F32)),
    "symmetric as an offset of powers of two": (
        Scheme(I4, group(32), F16),
        Scheme(U4, group(32), F16, offset=F16),
    ),
}


@pytest.mark.parametrize("name", EXACT)
def test_same_numbers(name: str) -> None:
    source, to = EXACT[name]
    before = tensor(source, seed=len(name))
    if name.startswith("symmetric as an offset"):  # a zero of a negative scale is -0, of an offset +0
        before = QuantTensor(source, before.shape, {**before.parts, "scale": np.abs(before.parts["scale"])})
    after = rewrite(before, to)
    assert after.scheme == to and same_bits(dequantize(after), dequantize(before))
    prove(before, after)
    assert to in variants(source, *before.shape)


def test_zero_points_of_8_are_no_zero_points() -> None:
    before = rewrite(tensor(I4G128), U4G128Z)
    after = rewrite(before, I4G128)
    assert np.array_equal(after.parts["codes"], tensor(I4G128).parts["codes"])
    with pytest.raises(Inexact, match=r"has the code -?\d+, which i4 \(-8 to 7\) cannot hold"):
        rewrite(tensor(U4G128Z), I4G128)


def test_a_group_index_is_kept() -> None:
    plain = tensor(I4G128)
    index = np.random.default_rng(1).permutation(256).astype(np.int32) // 128
    before = QuantTensor(
        replace(I4G128, group_index=True), plain.shape, {**plain.parts, "group_index": index}
    )
    after = rewrite(before, replace(U4G128Z, group_index=True))
    assert same_bits(dequantize(after), dequantize(before))


def test_whole_numbers_of_a_codebook_are_codes() -> None:
    book = np.array([-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], np.float32)
    scheme = Scheme(U4, group(32), F16, codebook=F32)
    codes = np.random.default_rng(2).integers(0, 16, (4, 64)).astype(np.uint8)
    scale = np.random.default_rng(3).random((4, 2)).astype(np.float16)
    before = QuantTensor(scheme, (4, 64), {"codes": codes, "scale": scale, "codebook": book})
    after = rewrite(before, Scheme(I8, group(32), F16))
    assert np.array_equal(after.parts["codes"], book[codes]) and same_bits(
        dequantize(after), dequantize(before)
    )
    broken = QuantTensor(scheme, (4, 64), {**before.parts, "codebook": book + np.float32(0.5)})
    with pytest.raises(Inexact, match="codebook of other than small whole numbers"):
        rewrite(broken, Scheme(I8, group(32), F16))


def test_fnuz_is_half() -> None:
    codes = np.array([[c for c in range(256) if c not in (0x7F, 0x80, 0xFF)]], np.uint8)
    scale = np.array([[3.0]], np.float32)
    before = QuantTensor(Scheme(E4M3FNUZ, CHANNEL, F32), codes.shape, {"codes": codes, "scale": scale})
    after = rewrite(before, Scheme(E4M3, CHANNEL, F32))
    assert same_bits(dequantize(after), dequantize(before))
    before.parts["codes"][0, 0] = 0x7F  # type: ignore[index]
    with pytest.raises(Inexact, match="whose codes are NaN in e4m3"):
        rewrite(before, Scheme(E4M3, CHANNEL, F32))


ONE = {"codes": np.array([[1, 2] * 16], np.int8), "scale": np.array([[1 + 2**-9]], np.float32)}


def test_what_rounds_is_named() -> None:
    before = QuantTensor(Scheme(I4, group(32), F32), (1, 32), ONE)
    with pytest.raises(
        Inexact, match=r"scale as bf16 that rounds: np.float32\(1.0019531\) would be np.float32\(1.0\)"
    ):
        rewrite(before, Scheme(I4, group(32), BF16))
    large = QuantTensor(before.scheme, (1, 32), {**ONE, "scale": np.array([[1e5]], np.float32)})
    with pytest.raises(
        Inexact, match=r"scale as f16 that rounds: np.float32\(100000.0\) would be np.float32\(inf\)"
    ):
        rewrite(large, Scheme(I4, group(32), F16))
    zeros = np.array([[3]], np.uint8)
    codes = np.array([[1, 2] * 16], np.uint8)
    odd = QuantTensor(
        Scheme(U4, group(32), F16, zero_point=U4), (1, 32),
        {"codes": codes, "scale": np.array([[1 + 2**-10]], np.float16), "zero_point": zeros},
    )  # fmt: skip
    with pytest.raises(Inexact, match="offset as f16 that rounds"):  # 3 x 1.0009766 has 12 significant bits
        rewrite(odd, SCHEMES["u4g32o"])
    even = QuantTensor(odd.scheme, (1, 32), {**odd.parts, "zero_point": zeros + np.uint8(1)})
    assert same_bits(dequantize(rewrite(even, SCHEMES["u4g32o"])), dequantize(even))


def test_the_proof_finds_one_bit() -> None:
    before = tensor(I4G128)
    codes = before.parts["codes"].copy()
    codes[7, 9] ^= 1
    with pytest.raises(Inexact, match=r"at \[107, 9\] and would be"):
        prove(before, QuantTensor(I4G128, before.shape, {**before.parts, "codes": codes}), start=100)
    signed_zero = QuantTensor(Scheme(F32), (1, 1), {"codes": np.array([[-0.0]], np.float32)})
    zero = QuantTensor(Scheme(F32), (1, 1), {"codes": np.array([[0.0]], np.float32)})
    with pytest.raises(Inexact, match=r"is np.float32\(-0.0\) at"):
        prove(signed_zero, zero)


def test_powers_of_two_are_powers() -> None:
    scale = np.array([[0.25], [2.0]], np.float32)
    codes = np.arange(64, dtype=np.uint8).reshape(2, 32)
    before = QuantTensor(Scheme(E4M3, group(32), F32), (2, 32), {"codes": codes, "scale": scale})
    assert rewrite(before, Scheme(E4M3, group(32), E8M0)).parts["scale"].tolist() == [[125], [128]]
    with pytest.raises(Inexact, match="scale as e8m0 that rounds"):
        rewrite(
            QuantTensor(before.scheme, (2, 32), {**before.parts, "scale": scale * 3}),
            Scheme(E4M3, group(32), E8M0),
        )


def test_the_scheme_itself_is_tried_first() -> None:
    for scheme in (I4G128, U4G128Z, *SCHEMES.values(), Scheme(E2M1, group(16), E4M3, global_scale=F32)):
        assert variants(scheme, 64, 256)[0] == scheme
    sizes = [s.bits_per_weight(64, 256) for s in variants(U4G128Z, 64, 256)[1:]]
    assert sizes == sorted(sizes) and len(sizes) > 20
