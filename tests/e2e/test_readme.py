"""Every command that the README shows runs, and says what the README shows of it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

README = (Path(__file__).resolve().parents[2] / "README.md").read_text()
EXAMPLES = re.findall(r"```console\n\$ fewbit (.*)\n((?:.*\n)*?)```", README)


def test_the_first_lines_are_the_two_commands():
    first, second = README.splitlines()[:2]
    assert first.split()[:2] == ["make", "serve"]
    assert second.split()[:2] == ["make", "test"]


def test_every_command_has_an_example():
    assert {shlex.split(command)[0] for command, _ in EXAMPLES} == {
        "run",
        "inspect",
        "support",
        "doctor",
        "eval",
    }


@pytest.mark.demo
@pytest.mark.parametrize("command, shown", EXAMPLES, ids=[command for command, _ in EXAMPLES])
def test_an_example_runs_and_shows_the_same_table(fewbit_cli, command, shown):
    """Figures and machines differ; the labels at the line starts, which are the table's structure, do not."""
    done = fewbit_cli(*shlex.split(command))
    assert done.returncode == 0, done.stderr
    labels = set(re.findall(r"^[A-Za-z]\S*", shown, re.MULTILINE))
    assert labels
    assert labels - set(re.findall(r"^\S+", done.stdout, re.MULTILINE)) == set()


@pytest.mark.demo
def test_the_python_example_streams_an_answer(server, capsys):
    (code,) = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    exec(compile(code.replace("http://127.0.0.1:8000", server.url), "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("The capital of France is Paris.")


def test_links_lead_somewhere(root):
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (root / target).exists(), target
