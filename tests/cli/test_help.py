"""Help is quick because it imports next to nothing, and complete because every command has some."""

from __future__ import annotations

import subprocess
import sys

import pytest

from fewbit.cli.app import COMMANDS
from tests.conftest import ROOT, cli_environment

HEAVY = (
    "numpy",
    "torch",
    "tokenizers",
    "minijinja",
    "uvicorn",
    "starlette",
    "msgspec",
    "psutil",
    "ctypes.util",
    "huggingface_hub",
    "httpx2",
)
PROBE = """
import sys
from fewbit.cli.app import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    code = end.code
print("code", code, file=sys.stderr)
print("heavy", *[name for name in {heavy!r} if name in sys.modules], file=sys.stderr)
"""


def probe(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PROBE.format(heavy=HEAVY), *args]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, cwd=ROOT, env=cli_environment()
    )


@pytest.mark.parametrize(
    "args", [["--help"], ["--version"], *[[name, "--help"] for name in COMMANDS]], ids=" ".join
)
def test_help_imports_nothing_heavy(args: list[str]) -> None:
    done = probe(*args)
    assert done.stderr.splitlines() == ["code 0", "heavy"], done.stderr
    assert "Traceback" not in done.stdout
    if args == ["--help"]:
        assert all(name in done.stdout for name in COMMANDS)
    elif args[-1] == "--help":
        assert f"Usage: fewbit {args[0]}" in done.stdout


@pytest.mark.parametrize(
    "args",
    [
        ["srve"],
        ["serve"],
        ["serve", "demo", "--port", "x"],
        ["run", "demo", "--nonsense"],
        ["serve", "demo", "--activations", "4"],
    ],
    ids=" ".join,
)
def test_misuse_is_explained_without_a_traceback(args: list[str]) -> None:
    done = probe(*args)
    assert "Traceback" not in done.stdout + done.stderr
    assert "code 2" in done.stderr and "heavy" in done.stderr  # 2: usage, as shells and other tools have it


def test_the_help_of_convert_names_every_format_that_is_written() -> None:
    from fewbit.convert.target import TARGETS

    shown = " ".join(probe("convert", "--help").stdout.replace("│", " ").split())
    assert f"The format: {', '.join(TARGETS)}." in shown
