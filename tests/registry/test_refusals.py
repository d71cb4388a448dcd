"""The text of every refusal, pinned in tests/data/golden_refusals.txt. `FEWBIT_UPDATE_GOLDEN=1 pytest` writes it anew."""

from __future__ import annotations

from pathlib import Path

import pytest

from fewbit.registry.select import AXES, select
from fewbit.spec.cell import Cell, Choice
from tests.golden_file import check_golden
from tests.registry.example_rows import ROWS, platform

SIZES = (("n", 576), ("k", 576))

# what is asked -> the axis that must refuse it
CASES: dict[str, tuple[Cell, str, str]] = {
    "an op without kernels": (Cell("conv"), "avx2", "op"),
    "a kernel that does not exist": (Cell("linear", "i4g32", kernel="linear_best"), "avx2", "kernel"),
    "a kernel of another op": (Cell("pack", "i4g32", kernel="rms_norm_f32_avx2"), "avx2", "kernel"),
    "an emulating kernel": (
        Cell("linear", "i4g32", kernel="linear_i4g32_bf16_n32k32_amx_emulated"),
        "amx",
        "kernel",
    ),
    "a kernel of another scheme": (
        Cell("linear", "u4g32o", kernel="linear_i4g32_f32_n32k32_avx2"),
        "avx2",
        "scheme",
    ),
    "a kernel that serves large M only": (
        Cell("linear", "i4g32", kernel="linear_i4g32_bf16_n32k32_amx"),
        "amx",
        "M",
    ),
    "a kernel that the machine cannot run": (
        Cell("linear", "i4g32", kernel="linear_i4g32_f32_n32k32_avx512"),
        "avx2",
        "platform",
    ),
    "a scheme without kernels": (Cell("linear", "i2g64"), "avx2", "scheme"),
    "a scheme of the reference only": (Cell("linear", "u4g128z"), "avx2", "scheme"),
    "a scheme for an op that takes none": (Cell("rms_norm", "i4g32"), "avx2", "scheme"),
    "another type of scale": (Cell("linear", "i4g32", "bf16"), "avx2", "scale dtype"),
    "a scale where there is none": (Cell("linear", "bf16", "f16"), "avx2", "scale dtype"),
    "8-bit activations for a scheme without them": (
        Cell("linear", "u4g32o", activation="8"),
        "amx",
        "activations",
    ),
    "8-bit activations on a machine without them": (
        Cell("linear", "i8g32", activation="8"),
        "avx2",
        "platform",
    ),
    "8-bit activations for large M": (Cell("linear", "i8g32", activation="8"), "avx512_vnni", "M"),
    "unknown activations": (Cell("linear", "u4g32o", activation="4"), "amx", "activations"),
    "a layout that is not written": (Cell("pack", "i4g32", layout="n16k64"), "avx2", "layout"),
    "a backend that is not there": (Cell("linear", "i4g32", backend="cuda"), "avx2", "backend"),
    "a scheme whose backend is another": (Cell("linear", "bf16", backend="reference"), "avx2", "backend"),
    "a machine that provides too little": (Cell("linear", "u4g32ot", "u6"), "scalar", "platform"),
    "a phase that is not served": (Cell("attention", "bf16", phase="prefill"), "avx2", "phase"),
    "k off the group": (Cell("linear", "i4g32", sizes=(("n", 576), ("k", 100))), "avx2", "k"),
    "k off the superblock": (Cell("linear", "u4g32ot", sizes=SIZES), "avx2", "k"),
    "a head dimension too large": (
        Cell("attention", "bf16", phase="decode", sizes=(("head_dim", 512),)),
        "avx2",
        "head_dim",
    ),
}


def refusal(name: str) -> str:
    cell, isa, axis = CASES[name]
    answer = select(cell, platform(isa), ROWS)
    assert not isinstance(answer, Choice), f"{name}: was not refused but chose {answer}"
    assert answer and {r.axis for r in answer} == {axis}
    return "\n".join(map(str, answer))


@pytest.mark.parametrize("name", CASES)
def test_the_most_specific_axis_refuses(name: str) -> None:
    refusal(name)


@pytest.mark.parametrize("name", CASES)
def test_a_refusal_says_what_is_offered_or_what_to_do(name: str) -> None:
    cell, isa, _ = CASES[name]
    answer = select(cell, platform(isa), ROWS)
    assert not isinstance(answer, Choice)
    for r in answer:
        assert r.offered or r.hint, r
        assert r.asked


def test_every_axis_has_a_case() -> None:
    refusing = {axis for _, _, axis in CASES.values()}
    names = {axis.name for axis in AXES} - {"activation", "constraint"} | {
        "activations",
        "k",
        "head_dim",
        "M",
    }
    assert refusing == names


def test_texts(root: Path) -> None:
    texts = [f"{name}\n    {refusal(name).replace(chr(10), chr(10) + '    ')}\n" for name in CASES]
    check_golden(root / "tests/data/golden_refusals.txt", "\n".join(texts))


def test_what_the_reference_serves_is_offered_with_the_flag_that_allows_it() -> None:
    answer = select(Cell("linear", "u4g128z"), platform("avx2"), ROWS)
    assert isinstance(answer, tuple) and "type --allow-reference" in answer[0].hint
    answer = select(Cell("linear", "i2g64"), platform("avx2"), ROWS)
    assert isinstance(answer, tuple) and "--allow-reference" not in answer[0].hint
