"""`fewbit run` and `fewbit chat` with the demo model, as a person or a pipe uses them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.conftest import ROOT, cli_environment

pytestmark = [pytest.mark.demo, pytest.mark.usefixtures("demo_model")]
Cli = Callable[..., CompletedProcess[str]]


def test_one_prompt(fewbit_cli: Cli) -> None:
    done = fewbit_cli("run", "demo", "What is the capital of France?", "--context", "256")
    assert (done.returncode, done.stdout) == (0, "The capital of France is Paris.\n")


def test_a_file_of_prompts(fewbit_cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "prompts.txt"
    file.write_text("What is the capital of France?\n\nName a colour.\nSay hello.\n")
    done = fewbit_cli(
        "run",
        "demo",
        "--file",
        file,
        "--json",
        "--max-tokens",
        "12",
        "--context",
        "256",
        "--queue",
        "0",
        "--max-sequences",
        "2",
    )
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["prompt"] for line in lines] == [
        "What is the capital of France?",
        "Name a colour.",
        "Say hello.",
    ]
    assert lines[0] == {
        "prompt": "What is the capital of France?", "text": "The capital of France is Paris.", "tokens": 8, "finish_reason": "stop"
    }  # fmt: skip
    assert all(line["tokens"] <= 12 for line in lines)


def test_raw_text_and_bad_settings(fewbit_cli: Cli) -> None:
    done = fewbit_cli(
        "run", "demo", "The capital of France is", "--raw", "--max-tokens", "3", "--context", "64"
    )
    assert "Paris" in done.stdout
    done = fewbit_cli("run", "demo", "x", "--temperature", "-1", "--context", "64")
    assert (
        done.returncode == 1
        and done.stderr.strip() == "fewbit: temperature must lie between 0 and 100, got -1.0"
    )
    done = fewbit_cli("run", "demo", "word " * 100, "--context", "64")
    assert done.returncode == 1 and "the context of 64" in done.stderr


def test_chat_over_a_pipe() -> None:
    talk = "What is the capital of France?\n/new\nWhat is the capital of France?\n/quit\n"
    done = subprocess.run(
        [sys.executable, "-m", "fewbit.cli.app", "chat", "demo", "--temperature", "0", "--context", "256"],
        input=talk, capture_output=True, text=True, timeout=120, cwd=ROOT, env=cli_environment(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == [
        "The capital of France is Paris.",
        "",
        "The capital of France is Paris.",
        "",
        "",
    ]
