"""Coverage-guided fuzzing of the readers: `python -m tests.fuzz.fuzz_readers TARGET [libFuzzer options]`, needs atheris.

TARGET is one of tests/fuzz/targets.py. Inputs that break the rule are written as crash-* into the working folder.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["fewbit.formats"]):
    from tests.fuzz.targets import TARGETS, seed


def main() -> None:
    if len(sys.argv) < 2 or sys.argv[1] not in TARGETS:
        sys.exit(f"name a target: {', '.join(TARGETS)}")
    name = sys.argv.pop(1)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        corpus, work = Path(folder, "corpus"), Path(folder, "work")
        corpus.mkdir()
        work.mkdir()
        (corpus / "seed").write_bytes(seed(name))
        atheris.Setup([*sys.argv, str(corpus)], lambda data: TARGETS[name](work, data) and None)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
