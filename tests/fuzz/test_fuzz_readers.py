"""A short run of the coverage-guided fuzzers, so that they stay able to run; long runs are by hand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.targets import TARGETS


@pytest.mark.slow
@pytest.mark.parametrize("name", TARGETS)
def test_a_short_run(root: Path, tmp_path: Path, name: str) -> None:
    pytest.importorskip("atheris")
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.fuzz_readers",
        name,
        "-max_total_time=10",
        "-max_len=20000",
        "-rss_limit_mb=1024",
    ]
    path = os.pathsep.join([str(root / "src"), str(root)])
    run = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert run.returncode == 0, run.stderr[-3000:]
    assert not list(tmp_path.glob("crash-*"))
