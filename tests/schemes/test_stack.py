"""Weights laid below one another keep their numbers, to the bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fewbit.schemes.reference import dequantize, quantize
from fewbit.schemes.stack import as_rows, stack
from fewbit.spec.dtype import BF16, E2M1, E4M3, E8M0, F16, F32, I4, I8, U4
from fewbit.spec.granularity import CHANNEL, TENSOR, block, group
from fewbit.spec.scheme import PartSpec, QuantTensor, Scheme

NVFP4 = Scheme(E2M1, group(16), E4M3, global_scale=F32)
SCHEMES = {
    Scheme(E4M3, TENSOR, F32): "e4m3channel",
    Scheme(I8, TENSOR, BF16): "i8channel",
    Scheme(U4, TENSOR, F16, zero_point=U4): "u4channelz",
    NVFP4: "e2m1g16t",
    Scheme(I4, group(32), F16): "i4g32",
    Scheme(E4M3, CHANNEL, F32): "e4m3channel",
    Scheme(E4M3, block(16, 32), F32): "e4m3b16x32",
    Scheme(E2M1, group(32), E8M0): "e2m1g32",
    Scheme(F16): "f16",
}


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_stacked_weights_dequantize_as_each_does(scheme: Scheme) -> None:
    """Magnitudes differ by 10^4 between the weights: one shared scale, or the larger of two, would show."""
    rng = np.random.default_rng(1)
    sizes = {32: 1e-2, 48: 1e2, 5: 1.0}
    pieces = [
        quantize((rng.standard_normal((n, 64)) * size).astype(np.float32), scheme)
        for n, size in sizes.items()
    ]
    together = scheme.stacked(64)
    assert together is not None and together.name == SCHEMES[scheme]
    whole = stack(pieces, together)
    assert whole.shape == (85, 64) and whole.scheme == together
    expected = np.concatenate([dequantize(piece) for piece in pieces])
    assert np.array_equal(dequantize(whole).view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize(
    "scheme",
    [
        Scheme(U4, group(64), F32, codebook=F32),
        Scheme(I4, group(32), F16, group_index=True),
        replace(NVFP4, granularity=TENSOR),
        Scheme(I4, family="shared", family_parts=(PartSpec("codes", I4, (("n", 1), ("k", 1))),
                                                  PartSpec("book", F32, (16,)))),
    ],
    ids=str,
)  # fmt: skip
def test_what_a_whole_tensor_shares_is_not_stacked(scheme: Scheme) -> None:
    assert scheme.stacked(64) is None


def test_a_family_whose_parts_are_rows_is_stacked() -> None:
    scheme = Scheme(I4, family="own", family_parts=(PartSpec("codes", I4, (("n", 1), ("k", 1))),))
    pieces = [QuantTensor(scheme, (n, 4), {"codes": np.full((n, 4), n, np.int8)}) for n in (2, 3)]
    assert stack(pieces, scheme).parts["codes"][:, 0].tolist() == [2, 2, 3, 3, 3]


def test_another_scheme_is_refused() -> None:
    tensor = quantize(np.ones((2, 32), np.float32), Scheme(E4M3, TENSOR, F32))
    with pytest.raises(ValueError, match="e4m3tensor is no i8channel"):
        as_rows(tensor, Scheme(I8, CHANNEL, F32))
