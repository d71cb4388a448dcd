"""pack rows against the numpy spelling of the layout, byte by byte."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cpu.packed_weights import PANEL, SCHEMES, Scheme, k_sizes, pack, random_parts
from tests.kernels.cpu.rows import assert_same_bits, need, rows_of, run

ROWS = [
    (scheme, row)
    for scheme in SCHEMES
    for row in rows_of("pack", scheme=scheme.name)
    if row.layout != "n32parts"
]


def packed_by(row, scheme: Scheme, parts: dict[str, np.ndarray], threads: int = 1) -> np.ndarray:
    n, k = parts["codes"].shape
    out = np.full(pack(scheme, parts).size, 0xA5, np.uint8)
    roles = ("codes", "scale", "offset", "super_scale", "super_offset")
    arrays = {role: np.ascontiguousarray(parts[role]) if role in parts else 0 for role in roles}
    run(row, threads=threads, packed=out, n=n, k=k, **arrays)
    return out


def test_every_scheme_has_rows():
    assert {scheme for scheme, _ in ROWS} == set(SCHEMES)


@pytest.mark.parametrize("n", [1, PANEL - 1, PANEL, PANEL + 1, 3 * PANEL + 17])
@pytest.mark.parametrize(("scheme", "row"), ROWS, ids=lambda x: x.name)
def test_bytes_are_those_of_the_layout(scheme, row, n):
    need(row)
    for k in k_sizes(scheme):
        parts = random_parts(scheme, n, k)
        assert_same_bits(packed_by(row, scheme, parts), pack(scheme, parts), f"{row.name} n={n} k={k}")


@pytest.mark.parametrize(("scheme", "row"), ROWS, ids=lambda x: x.name)
def test_slices_and_threads_give_the_same_bytes(scheme, row):
    need(row)
    parts = random_parts(scheme, 5 * PANEL + 3, scheme.block_k)
    whole = packed_by(row, scheme, parts)
    assert_same_bits(packed_by(row, scheme, parts, threads=3), whole, "3 threads")
    cut = 2 * PANEL
    slices = [{role: part[s] for role, part in parts.items()} for s in (slice(None, cut), slice(cut, None))]
    assert_same_bits(np.concatenate([packed_by(row, scheme, s) for s in slices]), whole, "two slices")
