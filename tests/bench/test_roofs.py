"""Which term bounds a product, and which peak a row is measured against."""

from __future__ import annotations

import pytest

from fewbit.bench.roofs import Roofs, bound, mean
from fewbit.registry.table import load_rows

ROOFS = Roofs(
    100e9,
    2e-6,
    {
        "f32 multiply-add": 1e12, "int8 multiply-add": 4e12, "amx bf16": 15e12, "amx bf16 from L1": 9e12,
        "amx int8": 30e12, "amx int8 from L1": 18e12,
    },
)  # fmt: skip
ROWS = {row.name: row for row in load_rows()}


@pytest.mark.parametrize(
    ("weight_bytes", "operations", "phases", "term", "seconds"),
    [
        (100_000_000, 10**9, 1, "memory", 1e-3),
        (100_000_000, 2 * 10**9, 1, "compute", 2e-3),
        (100_000, 10**6, 1, "overhead", 2e-6),
        (100_000, 10**6, 2, "overhead", 4e-6),
    ],
)
def test_the_longest_term_bounds(
    weight_bytes: int, operations: int, phases: int, term: str, seconds: float
) -> None:
    found = bound(weight_bytes, operations, phases, ROOFS, 1e12)
    assert (found.term, found.seconds) == (term, pytest.approx(seconds))


@pytest.mark.parametrize(
    ("kernel", "peak"),
    [
        ("linear_bf16_bf16_n32k32_amx", "amx bf16 from L1"),
        ("linear_i4g32_bf16w_n32k32_amx", "amx bf16 from L1"),
        ("linear_i4g32_i8g32_n32k32_amx", "amx int8 from L1"),
        ("linear_i4g32_i8g32_n32k32_avx512_vnni", "int8 multiply-add"),
        ("linear_i4g32_f32_n32k32_avx2", "f32 multiply-add"),
        ("linear_i4g32_i8g32_n32k32_scalar", "f32 multiply-add"),
    ],
)
def test_a_row_is_measured_against_the_unit_that_it_computes_on(kernel: str, peak: str) -> None:
    assert ROOFS.peak(ROWS[kernel]) == (peak, ROOFS.peaks[peak])


def test_the_roof_is_the_mean_of_before_and_after() -> None:
    later = Roofs(50e9, 4e-6, {name: value / 2 for name, value in ROOFS.peaks.items()})
    found = mean((ROOFS, later))
    assert (found.read, found.barrier, found.peaks["amx bf16"]) == (75e9, pytest.approx(3e-6), 11.25e12)
