"""Loading from the page cache, with decoding and packing: GB/s of checkpoint, and the memory that it took.

Checkpoints are written a few at a time, each loaded in a process of its own, and deleted. The first load is not timed: it brings the
file into the page cache, is watched for its memory, and its rows are compared with what was written.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.load_cases import CASES, CHECKED_ROWS, Case, write
from benchmarks.load_worker import digest
from benchmarks.peers import ROOT, environment
from benchmarks.report import print_table, write_csv
from fewbit.platforms.fingerprint import fingerprint
from fewbit.spec.scheme import QuantTensor

COLUMNS = ("format", "scheme", "into", "MB", "GB/s", "least", "most", "peak / packed", "answer")


KEYS = (
    "format", "scheme", "into", "checkpoint_mb", "gb_per_s", "least", "most", "peak_over_packed", "answer",
)  # fmt: skip


def run(
    model: Path | None, threads: int, rounds: int, layers: int, only: list[str], folder: Path | None
) -> int:
    """Exit status 1 when rows came out other than they were written, or memory passed the bound. The CSV grows with each format."""
    facts, rows = fingerprint(), []
    for row in (
        [measured("as given", "", model, threads, rounds, None)]
        if model
        else _of_cases(threads, rounds, layers, only, folder)
    ):
        rows.append(row)
        print(f"{row['format']:36} {row['gb_per_s']:>6} GB/s", file=sys.stderr)
        wrote = write_csv("load", rows, facts)
    if not rows:
        print(
            f"no format has {' or '.join(map(repr, only))} in its name; there are: {', '.join(case.name for case in CASES)}"
        )
        return 1
    title = f"Loading from the page cache, {threads} threads, medians of {rounds}; {facts['cpu']}, {facts['platform']}"
    print_table(title, COLUMNS, [[row[key] for key in KEYS] for row in rows])
    print(f"wrote {wrote}")
    return 1 if any(row["answer"] == "WRONG" or row["bound"] == "PASSED" for row in rows) else 0


def _of_cases(
    threads: int, rounds: int, layers: int, only: list[str], folder: Path | None
) -> Iterator[dict[str, str]]:
    """As many files as there are processors are written side by side, then loaded one after the other."""
    numbers = [number for number, case in enumerate(CASES) if any(part in case.name for part in only)]
    together = os.cpu_count() or 1
    for start in range(0, len(numbers), together):
        batch = numbers[start : start + together]
        with tempfile.TemporaryDirectory(prefix="fewbit-load-", dir=folder) as scratch:
            with ProcessPoolExecutor(together) as pool:
                written = list(pool.map(_write, batch, repeat(Path(scratch)), repeat(layers)))
            for number, (path, digest) in zip(batch, written, strict=True):
                case = CASES[number]
                yield measured(case.name, case.scheme.name, path, threads, rounds, digest)


def _write(number: int, scratch: Path, layers: int) -> tuple[Path, str]:
    """In a process of its own."""
    case = CASES[number]
    path, tensor = write(case, scratch / str(number), layers)
    return path, digest_of(case, tensor)


def digest_of(case: Case, tensor: QuantTensor) -> str:
    """Of the rows that must come out. Parts that all rows share stay whole."""
    shapes = case.scheme.part_shapes(CHECKED_ROWS, tensor.shape[1])
    parts = {role: part[: shapes[role][0]] for role, part in tensor.parts.items()}
    if case.scheme.is_plain:
        parts = {"codes": np.ascontiguousarray(parts["codes"])}
    return digest(QuantTensor(case.scheme, (CHECKED_ROWS, tensor.shape[1]), parts))


def measured(
    name: str, scheme: str, path: Path, threads: int, rounds: int, expected: str | None
) -> dict[str, str]:
    command = [sys.executable, "-m", "benchmarks.load_worker", str(path), str(threads), str(rounds)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment(), check=False)
    if done.returncode:
        raise RuntimeError(f"loading {name} failed:\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    rates = [found["bytes"] / seconds / 1e9 for seconds in found["seconds"]]
    packed, peak = found["packed_bytes"], found["peak_anon"]
    return {
        "format": name,
        "scheme": scheme,
        "into": "packed" if packed else "decoded only",
        "threads": str(found["threads"]),
        "rounds": str(rounds),
        "checkpoint_mb": f"{found['bytes'] / 1e6:.0f}",
        "gb_per_s": f"{median(rates):.2f}",
        "least": f"{min(rates):.2f}",
        "most": f"{max(rates):.2f}",
        "packed_mb": f"{packed / 1e6:.0f}",
        "peak_anonymous_mb": f"{peak / 1e6:.0f}",
        "peak_over_packed": f"{peak / packed:.3f}" if packed else "",
        "bound": "kept" if peak <= 1.05 * packed + (64 << 20) else "PASSED",
        "answer": "" if expected is None else "right" if found["digest"] == expected else "WRONG",
    }
