"""Fixtures that every test folder shares."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

# Oracles compute on one thread: two test processes with a pool each would spin against one another. Before numpy loads.
for pool in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(pool, "1")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def demo_model() -> Path:
    """The demo model's GGUF file; a missing one fails the test, since `make setup` installs it."""
    from fewbit.demo import demo_path

    return demo_path()


@pytest.fixture(scope="session")
def golden() -> Path:
    """Folder of golden outputs of the demo model."""
    return ROOT / "tests" / "data" / "golden"


def cli_environment(**changes: str) -> dict[str, str]:
    """This process's environment without fewbit's own variables (but the library), with `src` to import from."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith("FEWBIT_") or k == "FEWBIT_LIBRARY"}
    environ["PYTHONPATH"] = str(ROOT / "src")
    environ["COLUMNS"], environ["NO_COLOR"] = "110", "1"
    return environ | changes


@pytest.fixture(scope="session")
def fewbit_cli() -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs `fewbit ARGS` in a process of its own; keyword arguments are environment variables."""

    def run(*args: str | Path, timeout: float = 120, **environ: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "fewbit.cli.app", *map(str, args)]
        return subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=cli_environment(**environ), cwd=ROOT
        )

    return run
