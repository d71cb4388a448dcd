"""Which rows are chosen, for which M, and what is never chosen."""

from __future__ import annotations

import pytest

from fewbit.registry.declare import GROUP32, family
from fewbit.registry.select import select
from fewbit.spec.cell import M_MAX, Cell, Choice
from tests.registry.example_rows import ROWS, platform


def chosen(cell: Cell, isa: str, rows: tuple = ROWS) -> list[tuple[int, int, str]]:
    answer = select(cell, platform(isa), rows)
    assert isinstance(answer, Choice), answer
    return [(low, high, row.name) for low, high, row in answer.rows]


def test_a_weight_has_one_layout_and_a_row_for_each_interval_of_m() -> None:
    cell = Cell("linear", "u4g32o", "f16", sizes=(("n", 576), ("k", 1536)))
    assert chosen(cell, "amx") == [
        (1, 15, "linear_u4g32o_f32_n32k32_avx512"),
        (16, M_MAX, "linear_u4g32o_bf16_n32k32_amx"),
    ]
    answer = select(cell, platform("amx"), ROWS)
    assert isinstance(answer, Choice)
    assert answer.layout == "n32k32"
    assert [answer.row_for(m).activation for m in (1, 15, 16, 4096)] == ["f32", "f32", "bf16", "bf16"]


@pytest.mark.parametrize(
    ("isa", "row"), [("scalar", "scalar"), ("avx2", "avx2"), ("avx512", "avx512"), ("avx512_vnni", "avx512")]
)
def test_the_highest_instruction_set_that_is_provided(isa: str, row: str) -> None:
    assert chosen(Cell("linear", "i5g32", "f16"), isa) == [(1, M_MAX, f"linear_i5g32_f32_n32k32_{row}")]


def test_activations_16_is_auto() -> None:
    assert chosen(Cell("linear", "i4g32", activation="16"), "amx") == chosen(Cell("linear", "i4g32"), "amx")


def test_the_reference_is_chosen_only_when_asked_for() -> None:
    assert not isinstance(select(Cell("linear", "u4g128z"), platform("amx"), ROWS), Choice)
    cell = Cell("linear", "u4g128z", backend="reference")
    assert chosen(cell, "amx") == [(1, M_MAX, "linear_u4g128z_f32_canonical_reference")]
    by_name = Cell("linear", "i4g32", kernel="linear_i4g32_f32_canonical_reference")
    assert chosen(by_name, "amx") == [(1, M_MAX, "linear_i4g32_f32_canonical_reference")]


def test_a_kernel_named_is_used_though_a_better_one_exists() -> None:
    cell = Cell("linear", "i4g32", kernel="linear_i4g32_f32_n32k32_scalar")
    assert chosen(cell, "amx") == [(1, M_MAX, "linear_i4g32_f32_n32k32_scalar")]


def test_an_emulating_row_is_never_chosen() -> None:
    name = "linear_i4g32_bf16_n32k32_amx_emulated"
    assert any(row.name == name for row in ROWS)
    for cell in (Cell("linear", "i4g32", kernel=name), Cell("linear", "i4g32")):
        answer = select(cell, platform("scalar"), ROWS)
        assert not isinstance(answer, Choice) or all(row.name != name for _, _, row in answer.rows)
    refusals = select(Cell("linear", "i4g32", kernel=name), platform("scalar"), ROWS)
    assert isinstance(refusals, tuple) and refusals[0].axis == "kernel"


def test_a_layout_that_serves_every_m_wins_over_a_faster_one_that_does_not() -> None:
    other = family(
        "linear",
        schemes=GROUP32,
        isas=("amx",),
        activation="bf16",
        layout="n16k64",
        m_range=(32, M_MAX),
        priority=90,
    )
    assert chosen(Cell("linear", "i4g32"), "amx", (*ROWS, *other))[1][2] == "linear_i4g32_bf16_n32k32_amx"
    whole = family("linear", schemes=GROUP32, isas=("amx",), activation="bf16", layout="n16k64", priority=90)
    assert chosen(Cell("linear", "i4g32"), "amx", (*ROWS, *whole)) == [
        (1, M_MAX, "linear_i4g32_bf16_n16k64_amx")
    ]


def test_an_op_can_be_asked_for_the_layout_that_another_packed() -> None:
    answer = select(Cell("pack", "i4g32", layout="n32k32"), platform("amx"), ROWS)
    assert isinstance(answer, Choice) and answer.rows[0][2].name == "pack_i4g32_n32k32_avx2"


def test_a_row_narrower_in_m_splits_the_interval_of_a_lower_one() -> None:
    special = family(
        "linear",
        schemes=GROUP32,
        isas=("avx2",),
        activation="f32",
        layout="n32k32",
        m_range=(2, 4),
        priority=11,
    )
    names = [(low, high) for low, high, _ in chosen(Cell("linear", "i4g32"), "avx2", (*ROWS, *special))]
    assert names == [(1, 1), (2, 4), (5, M_MAX)]


def test_no_row_serves_that_m_is_an_error_of_the_caller() -> None:
    answer = select(Cell("rms_norm"), platform("avx2"), ROWS)
    assert isinstance(answer, Choice)
    with pytest.raises(ValueError, match="no row serves M=0"):
        answer.row_for(0)
