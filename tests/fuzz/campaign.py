"""Many inputs for every reader: `python -m tests.fuzz.campaign [--seed N] [--inputs N] [--workers N] [TARGET ...]`."""

from __future__ import annotations

import argparse
import os
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.fuzz.mutate import mutator, random_of
from tests.fuzz.targets import TARGETS
from tests.fuzz.worker import read_progress, report, shares, work

INPUTS = 1_000_000


@dataclass(frozen=True, slots=True)
class Failure:
    target: str
    number: int
    what: str
    saved: Path

    def __str__(self) -> str:
        return f"{self.target} #{self.number}: {self.what}\n  input saved as {self.saved}"


def campaign(
    seed: int, inputs: int, workers: int, targets: list[str], out: Path, say: Callable[[str], None]
) -> tuple[int, int, list[Failure]]:
    """Inputs read, inputs taken, failures. A worker that dies is started again behind the share in which it died."""
    out.mkdir(parents=True, exist_ok=True)
    for path in (p for suffix in ("failure", "input", "log") for p in out.glob(f"*.{suffix}")):
        path.unlink()  # of an earlier campaign
    for worker in range(workers):
        (out / f"progress-{worker}").write_bytes(bytes(32))
    last = sum(1 for _ in shares(targets, inputs))
    running = {worker: start(worker, workers, seed, inputs, targets, out) for worker in range(workers)}
    begun = said = time.monotonic()
    while running:
        time.sleep(0.2)
        for worker, process in list(running.items()):
            if process.poll() is None:
                continue
            del running[worker]
            if process.returncode:
                at = died(worker, process.returncode, seed, inputs, targets, out)
                if at + 1 < last:
                    running[worker] = start(worker, workers, seed, inputs, targets, out)
        if time.monotonic() - said > 30:
            said = time.monotonic()
            done = sum(read_progress(out / f"progress-{worker}")[2] for worker in range(workers))
            say(f"{done:,} inputs, {done / (said - begun):,.0f} a second")
    counts = [read_progress(out / f"progress-{worker}") for worker in range(workers)]
    return sum(c[2] for c in counts), sum(c[3] for c in counts), failures(out)


def start(
    worker: int, workers: int, seed: int, inputs: int, targets: list[str], out: Path
) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.campaign",
        "--seed",
        str(seed),
        "--inputs",
        str(inputs),
        "--out",
        str(out),
    ]
    command += ["--workers", str(workers), "--worker", str(worker), *targets]
    with (out / f"worker-{worker}.log").open("ab") as log:
        return subprocess.Popen(
            command, stdout=log, stderr=log, env=os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        )


def died(worker: int, status: int, seed: int, inputs: int, targets: list[str], out: Path) -> int:
    """Saves the input that killed the worker, or hung it, and lets the next begin with another share. Returns the share."""
    path = out / f"progress-{worker}"
    at, number, done, taken = read_progress(path)
    target = list(shares(targets, inputs))[at][0]
    log = (out / f"worker-{worker}.log").read_text(errors="replace")[-3000:]
    data = mutator(target)(random_of(seed, target, number))
    report(out, target, number, f"its process ended with status {status}\n{log}", data)
    path.write_bytes(struct.pack("<4Q", at + 1, 0, done, taken))
    return at


def failures(out: Path) -> list[Failure]:
    found = []
    for path in sorted(out.glob("*.failure")):
        target, number, what = path.read_text().split("\n", 2)
        found.append(Failure(target, int(number), what, path.with_suffix(".input")))
    return found


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.campaign")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--inputs", type=int, default=INPUTS)
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--worker", type=int, default=-1, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=Path("build/fuzz"))
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    options = parser.parse_args()
    targets = options.targets or list(TARGETS)
    if unknown := [name for name in targets if name not in TARGETS]:
        parser.error(f"no target {unknown[0]!r}; there are {', '.join(TARGETS)}")
    if options.worker >= 0:
        return work(options.worker, options.workers, options.seed, options.inputs, targets, options.out)
    print(f"seed {options.seed}, {len(targets)} targets", flush=True)
    begun = time.monotonic()
    done, taken, found = campaign(
        options.seed,
        options.inputs,
        options.workers,
        targets,
        options.out,
        lambda text: print(text, flush=True),
    )
    print(
        f"{done:,} inputs in {time.monotonic() - begun:.0f} s, {taken:,} of them taken; {len(found)} failures"
    )
    print(*found, sep="\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
