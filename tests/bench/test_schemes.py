"""Schemes by the names that users know: each is one that a kernel serves."""

from __future__ import annotations

import pytest

from fewbit.bench.schemes import ALIASES, COMMON, Asked, parse_schemes, served
from fewbit.schemes import SCHEMES
from fewbit.spec.dtype import BF16, F32
from fewbit.spec.refusal import FewbitError


def test_every_alias_is_served_under_its_own_numerics() -> None:
    for alias in ALIASES:
        (asked,) = parse_schemes(alias)
        assert asked.scale in ("", *served()[asked.scheme])
        assert asked.of(256).name == asked.scheme
    assert {asked.name for asked in parse_schemes("common")} == set(COMMON)


def test_what_names_mean() -> None:
    assert parse_schemes("Q4_K, w4a16-g128,awq,fp8-block,nvfp4,bf16") == (
        Asked("q4_k", "u4g32ot", "u6"),
        Asked("w4a16-g128", "i4g128", "bf16"),
        Asked("awq", "u4g128z", "f16"),
        Asked("fp8-block", "e4m3b128x128", "f32"),
        Asked("nvfp4", "e2m1g16s", "e4m3"),
        Asked("bf16", "bf16", ""),
    )
    assert parse_schemes("i4g128:f32,i4g128:f32")[0].of(256).scale == F32
    assert len(parse_schemes("i4g128:f32,i4g128:f32,i4g128")) == 2


def test_a_scheme_with_another_type_of_scales_is_another_scheme() -> None:
    q4_0, other = (asked.of(64) for asked in parse_schemes("i4g32,i4g32:bf16"))
    assert q4_0 == SCHEMES["i4g32"] and other.scale == BF16


def test_all_is_every_scheme_that_a_linear_kernel_serves() -> None:
    assert [asked.scheme for asked in parse_schemes("all")] == list(served())
    assert {"bf16", "i4g32", "u4g32ot", "e2m1g32"} <= served().keys()


def test_other_names_are_refused_with_the_list() -> None:
    with pytest.raises(FewbitError, match=r"'q9' is no scheme .* type all, common, .*q4_0.*u4g128z"):
        parse_schemes("bf16,q9")
    with pytest.raises(FewbitError, match="no kernel reads e2m1g32 with scales f16; type one of e8m0"):
        parse_schemes("mxfp4:f16")
    with pytest.raises(FewbitError, match="no kernel reads bf16 with scales f16; leave them out"):
        parse_schemes("bf16:f16")


def test_w8a8_follows_the_activations_that_such_checkpoints_declare() -> None:
    eight, plain = parse_schemes("w8a8,i8channel:f32")
    assert (eight.scheme, eight.scale) == (plain.scheme, plain.scale)
    assert [eight.activations(wanted) for wanted in ("auto", "8", "16")] == ["i8token", "i8token", "16"]
    assert [plain.activations(wanted) for wanted in ("auto", "8", "16")] == ["auto", "8", "16"]
