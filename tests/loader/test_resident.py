"""Anonymous memory while a model loads: what is packed, once, and a bounded rest. In a process of its own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.load import digest_of, measured
from benchmarks.load_cases import CASES, Case, write
from tests.conftest import cli_environment

PROBE = """
import json, sys
from pathlib import Path
from fewbit.formats import open_checkpoint
from fewbit.kernels.backend import open_backend
from fewbit.loader import LoadOptions, load_model
from fewbit.platforms.x86.detect import detect

def anonymous():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon:")) << 10

backend, checkpoint = open_backend("cpu", detect()), open_checkpoint(Path(sys.argv[1]))
before = anonymous()
seen = [before]
loaded = load_model(checkpoint, backend, LoadOptions(progress=lambda done, total: seen.append(anonymous())))
seen.append(anonymous())
print(json.dumps({"peak": max(seen) - before, "after": seen[-1] - before, "packed": loaded.need.weights}))
"""


@pytest.mark.demo
def test_loading_stays_within_the_packed_weights_and_a_bounded_rest(demo_model: Path) -> None:
    command = [sys.executable, "-c", PROBE, str(demo_model)]
    result = subprocess.run(
        command, capture_output=True, text=True, check=True, env=cli_environment(), timeout=120
    )
    found = json.loads(result.stdout)
    print(found)
    # 134.5 M weights: 106.2 M of them at 5 bits and the tied table of 28.3 M once, at 8.5 bits
    assert 90e6 < found["packed"] < 100e6
    assert found["peak"] <= 1.05 * found["packed"] + (64 << 20)
    assert found["after"] <= 1.05 * found["packed"] + (32 << 20)


QUICK = "gptq 4 bits, group 32"


@pytest.mark.parametrize(
    "case",
    [pytest.param(c, id=c.name, marks=[] if c.name == QUICK else pytest.mark.slow) for c in CASES],
)
def test_every_format_stays_within_the_bound(tmp_path: Path, case: Case) -> None:
    """A layer of 218 million weights, which unpacked would take 218 MB and more, on 16 threads."""
    path, tensor = write(case, tmp_path / "model", 1)
    row = measured(case.name, case.scheme.name, path, 16, 1, digest_of(case, tensor))
    shutil.rmtree(tmp_path / "model")
    print(row)
    assert row["bound"] == "kept" and row["answer"] == "right"
