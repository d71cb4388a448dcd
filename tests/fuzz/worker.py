"""One process of a campaign: shares of the inputs under fences, seconds and bytes of one input and of the process.

An input that raises anything but CheckpointError, kills its process, hangs or grows is saved, with what happened.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import resource
import struct
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.fuzz.inputs.pools import Make
from tests.fuzz.mutate import mutator, random_of
from tests.fuzz.targets import TARGETS

SHARE = 1000  # inputs that a worker takes at once
CPU_SECONDS = 10.0  # of one input; most take a millisecond
HANG_SECONDS = 120.0  # by the clock, on however busy a machine
MORE_BYTES = 1 << 30  # of address space, beyond what the process has before its first input
GROWTH_BYTES = 300 << 20  # of resident memory, over a worker's whole life


def shares(targets: list[str], inputs: int) -> Iterator[tuple[str, range]]:
    """All targets in turn, so that an early end has seen each; `inputs` in all, rounded up."""
    each = -(-inputs // len(targets))
    for first in range(0, each, SHARE):
        for target in targets:
            yield target, range(first, min(first + SHARE, each))


def work(worker: int, workers: int, seed: int, inputs: int, targets: list[str], out: Path) -> int:
    """Every `workers`-th share. Progress stands in a file that outlives a crash: share, number, inputs read so far and taken."""
    path, parent = out / f"progress-{worker}", os.getppid()
    start, _, done, taken = read_progress(path)
    with path.open("r+b") as file, tempfile.TemporaryDirectory(dir=memory_folder()) as folder:
        progress = mmap.mmap(file.fileno(), 32)
        made: dict[str, Make] = {}
        fence()
        for at, (target, numbers) in enumerate(shares(targets, inputs)):
            if at % workers != worker or at < start:
                continue
            home = Path(folder, target.replace(" ", "_"))
            home.mkdir(exist_ok=True)
            make = made.setdefault(target, mutator(target))
            if os.getppid() != parent:
                return 1
            for number in numbers:
                progress[:32] = struct.pack("<4Q", at, number, done, taken)
                taken += try_one(
                    TARGETS[target], home, make(random_of(seed, target, number)), target, number, out
                )
                done += 1
        progress[:32] = struct.pack("<4Q", 1 << 63, 0, done, taken)
    return 0


def fence() -> None:
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + MORE_BYTES, size + MORE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def try_one(
    run: Callable[[Path, bytes], bool], home: Path, data: bytes, target: str, number: int, out: Path
) -> bool:
    """True when the reader took it. What is wrong goes to a file."""
    faulthandler.dump_traceback_later(HANG_SECONDS, exit=True)
    before, resident = time.process_time(), resident_bytes()
    taken, what = False, ""
    try:
        taken = run(home, data)
    except BaseException:
        what = traceback.format_exc()
    seconds, grown = time.process_time() - before, resident_bytes() - resident
    if seconds > CPU_SECONDS:
        what += f"took {seconds:.1f} s, expected at most {CPU_SECONDS}"
    if grown > GROWTH_BYTES:
        what += f"grew by {grown >> 20} MiB, expected at most {GROWTH_BYTES >> 20}"
    if what:
        report(out, target, number, what, data)
    return taken


def resident_bytes() -> int:
    """The most that the process ever had since it began: ru_maxrss would go on from what its parent had."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM:"))


def memory_folder() -> str | None:
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def report(out: Path, target: str, number: int, what: str, data: bytes) -> None:
    stem = f"{target.replace(' ', '_')}-{number}"
    (out / f"{stem}.input").write_bytes(data)
    (out / f"{stem}.failure").write_text(f"{target}\n{number}\n{what}")


def read_progress(path: Path) -> tuple[int, int, int, int]:
    a, b, c, d = struct.unpack("<4Q", path.read_bytes())
    return a, b, c, d
