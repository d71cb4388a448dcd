"""Kernel names parse into their fields and back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fewbit.registry.grammar import KernelName, check_name, parse_name
from fewbit.registry.table import load_rows
from fewbit.spec.features import ISAS
from tests.registry.example_rows import ROWS

NAMES = {
    "linear_u4g32o_f32_n32k32_avx2": KernelName("linear", "u4g32o", "f32", "n32k32", "avx2"),
    "linear_u4g128z_bf16_n32k32_amx": KernelName("linear", "u4g128z", "bf16", "n32k32", "amx"),
    "linear_i8g32_i8g32_n32k32_avx512_vnni": KernelName("linear", "i8g32", "i8g32", "n32k32", "avx512_vnni"),
    "linear_bf16_f32_n32k32_avx512_bf16": KernelName("linear", "bf16", "f32", "n32k32", "avx512_bf16"),
    "linear_i6g16t_bf16_n32k256_amx_emulated": KernelName("linear", "i6g16t", "bf16", "n32k256", "amx", True),
    "linear_u8b128x128_f32_canonical_reference": KernelName(
        "linear", "u8b128x128", "f32", "canonical", "reference"
    ),
    "pack_u4g32ot_n32k256_scalar": KernelName("pack", "u4g32ot", "", "n32k256", "scalar"),
    "pack_bf16_n32k32_scalar": KernelName("pack", "bf16", "", "n32k32", "scalar"),
    "rms_norm_f32_avx2": KernelName("rms_norm", "", "f32", "", "avx2"),
    "rope_f32_avx2": KernelName("rope", "", "f32", "", "avx2"),
    "rope_angles_f32_scalar": KernelName("rope_angles", "", "f32", "", "scalar"),
    "attention_bf16_f32_avx2": KernelName("attention", "bf16", "f32", "", "avx2"),
}


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str) -> None:
    assert parse_name(name) == NAMES[name]
    assert str(NAMES[name]) == name


@pytest.mark.parametrize("row", [*ROWS, *load_rows()], ids=lambda row: row.name)
def test_every_row(row: object) -> None:
    check_name(row)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["linear", "linear_avx3", "linear_w4_f32_n32k32_avx2", "gemm_f32_avx2", "linear_u4g_f32_avx2"]
)
def test_other_names_are_refused_with_the_grammar(name: str) -> None:
    with pytest.raises(ValueError, match=r"does not follow <op>\[_<scheme>\]"):
        parse_name(name)


def test_a_row_says_in_its_name_what_it_is() -> None:
    row = next(row for row in ROWS if row.name == "linear_u4g32o_f32_n32k32_avx2")
    with pytest.raises(ValueError, match="named unlike its fields; they say linear_i4g32_f32_n32k32_avx2"):
        check_name(replace(row, scheme="i4g32"))
    with pytest.raises(ValueError, match="must also require bmi2, which its instruction set implies"):
        check_name(replace(row, requires=ISAS["avx2"].requires - {"bmi2"}))
    with pytest.raises(ValueError, match="of backend reference is named for isa avx2"):
        check_name(replace(row, backend="reference"))
