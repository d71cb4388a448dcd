"""Loading from the page cache, with decoding and packing: GB/s of checkpoint, and the memory that it took.

Each format's checkpoint is written, loaded in a process of its own, and deleted. The first load is not timed: it brings the
file into the page cache, is watched for its memory, and its rows are compared with what was written.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.fingerprint import fingerprint
from benchmarks.load_cases import CASES, CHECKED_ROWS, Case, write
from benchmarks.load_worker import digest
from benchmarks.peers import ROOT, environment
from benchmarks.report import print_table, write_csv
from fewbit.spec.scheme import QuantTensor

COLUMNS = ("format", "scheme", "into", "MB", "GB/s", "least", "most", "peak / packed", "answer")


def run(model: Path | None, threads: int, rounds: int, layers: int, only: str, folder: Path | None) -> int:
    """Exit status 1 when rows came out other than they were written, or memory passed the bound."""
    rows = [measured("as given", "", model, threads, rounds, None)] if model else []
    for case in [] if model else [case for case in CASES if only in case.name]:
        with tempfile.TemporaryDirectory(prefix="fewbit-load-", dir=folder) as scratch:
            path, tensor = write(case, Path(scratch) / "model", layers)
            rows.append(measured(case.name, case.scheme.name, path, threads, rounds, digest_of(case, tensor)))
            shutil.rmtree(Path(scratch) / "model")
        print(f"{case.name:36} {rows[-1]['gb_per_s']:>6} GB/s", file=sys.stderr)
    if not rows:
        print(f"no format has {only!r} in its name; there are: {', '.join(case.name for case in CASES)}")
        return 1
    facts = fingerprint()
    title = f"Loading from the page cache, {threads} threads, medians of {rounds}; {facts['cpu']}, {facts['platform']}"
    keys = (
        "format",
        "scheme",
        "into",
        "checkpoint_mb",
        "gb_per_s",
        "least",
        "most",
        "peak_over_packed",
        "answer",
    )
    print_table(title, COLUMNS, [[row[key] for key in keys] for row in rows])
    print(f"wrote {write_csv('load', rows, facts)}")
    return 1 if any(row["answer"] == "WRONG" or row["bound"] == "PASSED" for row in rows) else 0


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
