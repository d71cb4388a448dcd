"""Runs every kernel that this machine can run on all cases of its op, and says what came out. Needs numpy alone.

    python tools/attest.py             run and report; exit status 1 when a row is wrong
    python tools/attest.py --write     also write docs/attested/<platform>.csv (and compiled.csv) from this run
    python tools/attest.py linear_u4   only rows whose name contains the word

The library is found as always (FEWBIT_LIBRARY, the package, build/). FEWBIT_FEATURES=-amx attests a lesser platform here.
"""

from __future__ import annotations

import datetime
import hashlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from fewbit.kernels.cpu.backend import CpuBackend  # noqa: E402
from fewbit.kernels.cpu.library import row_names, version  # noqa: E402
from fewbit.library_path import find_library  # noqa: E402
from fewbit.platforms.x86.detect import CPUINFO, detection, model_name  # noqa: E402
from fewbit.registry.attested import Record, read_attestation, write_records  # noqa: E402
from fewbit.registry.table import load_rows  # noqa: E402
from fewbit.spec.cell import KernelRow  # noqa: E402
from fewbit.spec.features import name_features  # noqa: E402
from tests.matrix.run import results  # noqa: E402

FOLDER = ROOT / "docs" / "attested"


def runnable() -> list[KernelRow]:
    """The rows of the cpu backend that this machine grants and this library holds."""
    provides, compiled = detection().platform.provides, set(row_names())
    return [r for r in load_rows() if r.backend == "cpu" and r.requires <= provides and r.name in compiled]


def build_id() -> str:
    """Version and content of the library, so that a record can be told from one of another build."""
    path = find_library()
    assert path
    return f"{version()}+{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"


def attest(row: KernelRow, backend: CpuBackend, build: str) -> tuple[Record, list[str]]:
    """The record of a row and the faults of its cases."""
    ran = list(results(row, load_rows(), backend))
    worst = max(ran, key=lambda result: (result.error / (result.allowed or 1), result.case))
    record = Record(
        row=row.name,
        cases=len(ran),
        worst_case=worst.case,
        max_error=worst.error,
        tolerance=worst.allowed,
        date=datetime.date.today().isoformat(),
        cpu=model_name(CPUINFO) or "unknown",
        features=name_features(detection().platform.provides),
        build=build,
    )
    return record, [f"{row.name} {result.case}: {result.fault}" for result in ran if result.fault]


def attest_all(words: list[str]) -> Iterator[tuple[Record, list[str]]]:
    backend, build = CpuBackend(detection().platform), build_id()
    for row in runnable():
        if not words or any(word in row.name for word in words):
            yield attest(row, backend, build)


def write(records: list[Record]) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    write_records(FOLDER / f"{detection().platform.name}.csv", records)
    declared = {row.name for row in load_rows()}
    compiled = sorted(
        declared & (read_attestation(FOLDER).compiled | set(row_names()))
    )  # builds may hold fewer sets
    (FOLDER / "compiled.csv").write_text("row\n" + "".join(f"{name}\n" for name in compiled))


def main(arguments: list[str]) -> int:
    writing, words = "--write" in arguments, [a for a in arguments if not a.startswith("--")]
    if any(a.startswith("--") and a != "--write" for a in arguments) or (writing and words):
        print(__doc__, file=sys.stderr)
        return 2
    start, records, faults = time.monotonic(), [], []
    for record, wrong in attest_all(words):
        records.append(record)
        faults += wrong
        margin = f"error {record.max_error:.2g} of {record.tolerance:.2g}" if record.tolerance else "exact"
        print(f"{'WRONG' if wrong else 'ok':5} {record.row}: {record.cases} cases, {margin}", flush=True)
    print("\n".join(faults))
    skipped = [
        r.name for r in load_rows() if r.backend == "cpu" and r.name not in {record.row for record in records}
    ]
    machine = detection().platform
    print(
        f"{machine.name} ({machine.description}): {len(records)} kernels ran, {len(skipped)} cannot run here",
        end="",
    )
    print(f", {len(faults)} faults, {time.monotonic() - start:.1f} s")
    if writing and not faults:
        write(records)
        print(f"wrote {FOLDER.relative_to(ROOT)}/{machine.name}.csv")
    return 1 if faults or not records else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
