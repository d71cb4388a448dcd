"""How the reading of each scheme in each format was verified: a table that tools/gen_formats.py makes from the tests' own.

bit-equal    checkpoints that a tool of the format wrote: every weight has the bits of the tool's own dequantized one
rounding     the same, but for a rounding of the tool's own arithmetic, which the test bounds and gives the reason for
round trip   no file of a tool is at hand: what is written by the published contract is read again bit by bit
"""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Literal, cast

How = Literal["bit-equal", "rounding", "round trip"]
HOWS: tuple[How, ...] = ("bit-equal", "rounding", "round trip")
PACKAGED = Path(__file__).with_name("evidence.csv")


@dataclass(frozen=True, slots=True)
class Evidence:
    """`scale`: element type of the scales, "" for none. `checkpoints`: how many of a tool's hold such weights."""

    format: str
    scheme: str
    scale: str
    how: How
    checkpoints: int


def read_evidence(path: Path = PACKAGED) -> tuple[Evidence, ...]:
    with path.open(newline="") as file:
        return tuple(
            Evidence(r["format"], r["scheme"], r["scale"], cast(How, r["how"]), int(r["checkpoints"]))
            for r in csv.DictReader(file)
        )


def evidence_text(found: Iterable[Evidence]) -> str:
    lines = [[field.name for field in fields(Evidence)], *map(astuple, found)]
    return "".join(",".join(map(str, line)) + "\n" for line in lines)
