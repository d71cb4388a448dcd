"""The support product: every declared row runs here or is refused, every undeclared cell is refused, and the choice of each
cell on each platform is pinned in tests/data/golden_selection.txt (FEWBIT_UPDATE_GOLDEN=1 writes it anew).

With FEWBIT_ATTEST=1, what ran is written to docs/attested, as `python tools/attest.py --write` does.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fewbit.kernels.cpu.backend import CpuBackend
from fewbit.kernels.cpu.library import row_names
from fewbit.platforms.known import KNOWN
from fewbit.platforms.x86.detect import detection
from fewbit.registry.attested import Attestation, Record
from fewbit.registry.explain import describe_cell
from fewbit.registry.matrix import Entry, matrix
from fewbit.registry.refusals import describe_m
from fewbit.registry.table import load_rows
from fewbit.schemes.reference import dequantize
from fewbit.spec.cell import Choice, KernelRow
from fewbit.spec.op import OPS
from tests.golden_file import check_golden
from tests.matrix.cases import CASES
from tests.matrix.problem import error, run
from tools import attest

CPU_ROWS = [row for row in load_rows() if row.backend == "cpu"]
NOTHING_ATTESTED = Attestation({}, frozenset())
ENTRIES = matrix(load_rows(), KNOWN.values(), NOTHING_ATTESTED)


@pytest.fixture(scope="module")
def records() -> Iterator[list[Record]]:
    """What ran, written at the end when FEWBIT_ATTEST=1 and every row that could run did."""
    ran: list[Record] = []
    yield ran
    if os.environ.get("FEWBIT_ATTEST") == "1":
        assert {record.row for record in ran} == {row.name for row in attest.runnable()}, (
            "only a whole run attests"
        )
        attest.write(ran)


@pytest.fixture(scope="module")
def backend() -> CpuBackend:
    return CpuBackend(detection().platform)


@pytest.mark.parametrize("row", CPU_ROWS, ids=lambda row: row.name)
def test_a_declared_row_matches_its_reference(
    row: KernelRow, backend: CpuBackend, records: list[Record]
) -> None:
    if lacking := row.requires - detection().platform.provides:
        pytest.skip(f"this machine lacks {', '.join(sorted(lacking))}")
    record, faults = attest.attest(row, backend, attest.build_id())
    assert not faults, "\n".join(faults)
    assert record.cases > 0
    records.append(record)


@pytest.mark.parametrize("name", ["linear_u4g32o_f32_n32k32_scalar", "linear_i6g16t_f32_n32k256_scalar"])
def test_the_comparison_notices_one_code_that_is_off_by_one(name: str, backend: CpuBackend) -> None:
    row = next(row for row in CPU_ROWS if row.name == name)
    problem = next(p for p in CASES["linear"](row) if p.case.startswith("m=1 n=33"))
    found = run(problem, row, backend)
    assert error(problem, found, problem.expected()) <= problem.allowed
    codes = problem.args["weight"].parts["codes"]
    nonzero = np.argwhere(dequantize(problem.args["weight"]) != 0)
    codes[tuple(nonzero[-1])] ^= 1
    assert error(problem, found, problem.expected()) > problem.allowed


def test_every_op_of_the_table_has_cases() -> None:
    assert {row.op for row in load_rows()} <= CASES.keys()
    assert CASES.keys() == OPS.keys()


def test_every_declared_row_that_can_run_here_is_in_the_library() -> None:
    """And the library holds no row that is not declared, but for what measures the machine (kernels/cpu/roofs.py)."""
    here = {row.name for row in CPU_ROWS if row.requires <= detection().granted}
    compiled = set(row_names())
    assert here <= compiled, f"not compiled: {sorted(here - compiled)}"
    undeclared = compiled - {row.name for row in CPU_ROWS}
    assert {name for name in undeclared if not name.startswith("probe_")} <= {"nothing"}


@pytest.mark.parametrize(
    "entry", ENTRIES, ids=lambda e: f"{describe_cell(e.cell)} {e.platform}".replace(" ", "-")
)
def test_a_cell_is_served_for_every_m_or_refused_with_a_reason(entry: Entry) -> None:
    if not isinstance(entry.answer, Choice):
        assert entry.state == "refused"
        assert all(refusal.hint or refusal.offered for refusal in entry.answer)
        return
    provides = KNOWN[entry.platform].provides
    next_m = 1
    for low, high, row in entry.answer.rows:
        assert low == next_m <= high and row.m_range[0] <= low and high <= row.m_range[1]
        assert row.requires <= provides and not row.emulates and row.backend == "cpu"
        assert row.layout == entry.answer.layout
        next_m = high + 1
    assert next_m > 1 << 30


def test_more_features_never_lose_a_cell() -> None:
    """What a lesser platform serves, a greater one serves too."""
    served = [
        {e.cell for e in ENTRIES if e.platform == name and isinstance(e.answer, Choice)} for name in KNOWN
    ]
    for lesser, greater in itertools.pairwise(served):
        assert lesser <= greater


def test_golden_selection(root: Path) -> None:
    lines = []
    cell = None
    for entry in ENTRIES:
        if entry.cell != cell:
            cell = entry.cell
            lines.append(describe_cell(cell))
        lines.append(f"    {entry.platform:11} {_told(entry)}")
    check_golden(root / "tests/data/golden_selection.txt", "\n".join(lines) + "\n")


def _told(entry: Entry) -> str:
    if isinstance(entry.answer, Choice):
        return "; ".join(f"M {describe_m(low, high)}: {row.name}" for low, high, row in entry.answer.rows)
    return f"refused: {'; '.join(map(str, entry.answer))}"
