"""What ran where: the records in docs/attested, written by tools/attest.py on the machines themselves.

<platform>.csv   one line for each row: how many cases ran, which came out worst, its error and what was tolerated
compiled.csv     the rows that the library of that build holds, whether or not the machine could run them
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path

from fewbit.spec.cell import Choice, KernelRow, State

PACKAGED = Path(__file__).with_name("attested")
CHECKOUT = Path(__file__).parents[3] / "docs" / "attested"
COMPILED = "compiled"

STATES: tuple[State, ...] = ("attested", "emulated", "compiled", "declared", "refused")  # from best to none


@dataclass(frozen=True, slots=True)
class Record:
    """`max_error` and `tolerance` are in the unit of the op's case (see tests/matrix_cases.py); 0 tolerates no other bit."""

    row: str
    cases: int
    worst_case: str
    max_error: float
    tolerance: float
    date: str
    cpu: str
    features: str
    build: str


@dataclass(frozen=True, slots=True)
class Attestation:
    """Records by platform and row name, and the names of compiled rows."""

    records: Mapping[str, Mapping[str, Record]]
    compiled: frozenset[str]

    def state(self, row: KernelRow, platform: str, table: Iterable[KernelRow]) -> State:
        if row.name in self.records.get(platform, {}):
            return "attested"
        emulations = {
            other.name for other in table if other.emulates == row.name or _same_algorithm(other, row)
        }
        if any(emulations & ran.keys() for ran in self.records.values()):
            return "emulated"
        return "compiled" if row.name in self.compiled else "declared"

    def state_of(self, choice: Choice, platform: str, table: Iterable[KernelRow]) -> State:
        """Of a cell: that of its row that is proven least."""
        table = tuple(table)
        return max((self.state(row, platform, table) for _, _, row in choice.rows), key=STATES.index)


def _same_algorithm(a: KernelRow, b: KernelRow) -> bool:
    """Rows that promise each other's bits are one algorithm, instantiated for several instruction sets."""
    same = (a.op, a.scheme, a.layout, a.result_class) == (b.op, b.scheme, b.layout, b.result_class)
    return same and bool(a.result_class) and a.exactness == b.exactness == "bitwise"


@cache
def read_attestation(folder: Path | None = None) -> Attestation:
    """From the installed package's copy, else from the checkout; nothing attested when there is neither."""
    folder = folder or (PACKAGED if PACKAGED.is_dir() else CHECKOUT)
    records = {path.stem: _read(path) for path in sorted(folder.glob("*.csv")) if path.stem != COMPILED}
    listed = folder / f"{COMPILED}.csv"
    compiled = frozenset(line["row"] for line in _lines(listed)) if listed.exists() else frozenset()
    return Attestation(records, compiled)


def write_records(path: Path, records: Iterable[Record]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Record)], lineterminator="\n")
        writer.writeheader()
        for record in sorted(records, key=lambda record: record.row):
            values = asdict(record)
            writer.writerow(values | {name: f"{values[name]:.3g}" for name in ("max_error", "tolerance")})


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def _read(path: Path) -> dict[str, Record]:
    read = {"cases": int, "max_error": float, "tolerance": float}
    return {
        line["row"]: Record(**{name: read.get(name, str)(value) for name, value in line.items()})
        for line in _lines(path)
    }
