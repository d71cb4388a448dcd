"""The order and the bookkeeping of the timing loop, on plans that only write down that they ran."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from fewbit.bench import timing
from fewbit.bench.linear import judge
from fewbit.bench.roofs import Roofs
from fewbit.bench.shapes import Shape
from fewbit.bench.table import duration, groups
from fewbit.bench.timing import Rotation, Timed
from fewbit.registry.table import load_rows

ROW = next(row for row in load_rows() if row.name == "linear_i4g32_f32_n32k32_avx2")
ROOFS = Roofs(10e9, 1e-6, {"f32 multiply-add": 1e12})


class Noted:
    """Stands in for a matrix of two windows of one copy of 100 bytes."""

    def __init__(self, name: str, log: list[tuple[str, int, int]], size: int = 100) -> None:
        self.name, self.log, self.bytes, self.window = name, log, size, 1
        self.starts, self.last_read, self.turn = [0, 1], [-1, -1], 0
        self.operands = SimpleNamespace(rows=np.zeros(1, np.int32))
        self.shape, self.asked = (
            Shape("", "", 64, 64),
            SimpleNamespace(name="q4_0", scheme="i4g32", scale="f16"),
        )
        self.choice: Any = SimpleNamespace(row_for=lambda m: ROW)

    def plans(self, m: int) -> list[Any]:
        return [
            SimpleNamespace(run=lambda i=i: self.log.append((self.name, int(self.operands.rows[0]), i)))
            for i in range(2)
        ]

    def phases(self, row: Any) -> int:
        return 1


@pytest.fixture(autouse=True)
def plain_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "view", lambda rows: rows)


def cells(log: list[tuple[str, int, int]]) -> list[Timed]:
    a, b = Noted("a", log), Noted("b", log)
    return [Timed(each, m) for m in (1, 8) for each in (a, b)]  # type: ignore[arg-type]


def test_each_round_runs_every_cell_once_from_another_start_on_the_next_copy() -> None:
    log: list[tuple[str, int, int]] = []
    made = cells(log)
    timing.measure(made, 2, Rotation(0, lambda: None), float("inf"), print)
    assert [(name, m) for name, m, _ in log[:4]] == [("a", 1), ("b", 1), ("a", 8), ("b", 8)]
    assert [(name, m) for name, m, _ in log[4:]] == [("a", 8), ("b", 8), ("a", 1), ("b", 1)]
    assert [copy for name, _, copy in log if name == "a"] == [1, 0, 1, 0]
    assert [len(cell.seconds) for cell in made] == [2, 2, 2, 2]


@pytest.mark.parametrize(("rotate_bytes", "evictions"), [(300, 0), (301, 2 * 4 - 4)])
def test_a_weight_that_a_cache_may_still_have_is_not_timed(rotate_bytes: int, evictions: int) -> None:
    """Two matrices of two copies of 100 bytes: 300 others lie between two reads of one."""
    evicted: list[int] = []
    rotation = Rotation(rotate_bytes, lambda: evicted.append(1))
    timing.measure(cells([]), 2, rotation, float("inf"), print)
    assert len(evicted) == rotation.evictions == evictions


def test_no_round_begins_when_the_time_is_over() -> None:
    said: list[str] = []
    made = cells([])
    timing.measure(made, 5, Rotation(0, lambda: None), 0.0, said.append)
    assert [len(cell.seconds) for cell in made] == [1, 1, 1, 1] and said == [
        "1 of 5 rounds, since the time is over"
    ]


def test_the_figures_of_a_cell() -> None:
    one, eight = Timed(Noted("a", [], 10**6), 1), Timed(Noted("a", [], 10**6), 8)  # type: ignore[arg-type]
    eight.matrix = one.matrix
    one.seconds, eight.seconds = [2e-4, 1e-3, 1e-4], [4e-4]
    results = judge([eight, one], ROOFS)
    assert [(r.m, r.step) for r in results] == [(1, 1.0), (8, pytest.approx(2.0))]
    first = results[0]
    assert (
        first.median == 2e-4 and first.bytes_per_s == pytest.approx(5e9) and first.operations == 2 * 64 * 64
    )
    assert first.roof.term == "memory" and first.roof.seconds == pytest.approx(1e-4)
    ((title, lines),) = groups(results)
    assert title == "q4_0 = i4g32, scales f16  64x64  1.0 MB"
    assert lines[0] == ["1", ROW.name, "200.0 µs", "5.0", "50%", "0.00", "0%", "memory", "50%", "1.00"]
    assert lines[1][4:] == ["25%", "0.00", "0%", "memory", "25%", "2.00"]


def test_durations_and_wrong_answers_are_told() -> None:
    assert (duration(1.5e-6), duration(2.5e-3)) == ("1.5 µs", "2.50 ms")
    cell = Timed(Noted("a", []), 8, "y[0,1] = 1, expected 2 within 0.1", [1e-3])  # type: ignore[arg-type]
    ((_, lines),) = groups(judge([cell], ROOFS))
    assert lines[0][-1] == "  WRONG: y[0,1] = 1, expected 2 within 0.1"
