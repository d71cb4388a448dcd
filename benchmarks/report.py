"""Results as a table for people and as CSV, one row a measurement, each with its machine's fingerprint."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

RESULTS = Path(__file__).resolve().parent / "results"


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """With rich where it is installed; in plain columns elsewhere, so that a bare machine can run a benchmark."""
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(len(row[i]) for row in [columns, *rows]) for i in range(len(columns))]
        print(title)
        for row in [columns, *rows]:
            print("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())
        return
    table = Table(*columns, title=title, title_justify="left")
    for row in rows:
        table.add_row(*row)
    Console().print(table)


def write_csv(name: str, rows: Sequence[dict[str, str]], fingerprint: dict[str, str]) -> Path:
    """benchmarks/results/<date>-<platform>-<name>.csv; a second run of a day replaces the first."""
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{fingerprint['date']}-{fingerprint['platform']}-{name}.csv"
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0], *fingerprint], lineterminator="\n")
        writer.writeheader()
        writer.writerows(row | fingerprint for row in rows)
    return path
