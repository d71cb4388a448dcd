"""The generated pages are those that the tables give now."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from fewbit.platforms.known import KNOWN
from fewbit.platforms.x86.mask import apply_mask


@pytest.mark.parametrize("tool", ["gen_docs", "gen_ci_matrix"])
def test_generated_files_are_up_to_date(root: Path, tool: str) -> None:
    done = subprocess.run(
        [sys.executable, root / "tools" / f"{tool}.py", "--check"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_job_hides_exactly_what_its_platform_lacks(root: Path) -> None:
    jobs = json.loads((root / "docs" / "ci-matrix.json").read_text())["include"]
    assert [job["platform"] for job in jobs] == list(KNOWN)
    best = frozenset[str]().union(*(platform.provides for platform in KNOWN.values()))
    for job in jobs:
        items = filter(None, job["features"].split(","))
        assert apply_mask(best, items) == KNOWN[job["platform"]].provides
