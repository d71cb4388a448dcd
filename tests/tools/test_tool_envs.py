"""The environments of the formats' own tools: pinned, and each used by the tests that it is there for."""

from __future__ import annotations

import re
from pathlib import Path


def test_every_requirement_is_pinned(root: Path) -> None:
    for path in (root / "requirements/tools").glob("*.txt"):
        lines = [line for line in path.read_text().splitlines() if not line.startswith("#")]
        assert lines and all(re.fullmatch(r"[\w.-]+==[\w.]+(  # to build)?", line) for line in lines), path


def test_every_tool_has_its_requirements_script_and_tests(root: Path) -> None:
    wanted = {path.stem for path in (root / "requirements/tools").glob("*.txt")}
    used = re.findall(r'TOOL = Tool\("(\w+)", "(\w+\.py)"', "".join(p.read_text() for p in (root / "tests/producers").glob("test_*.py")))  # fmt: skip
    assert {name for name, _ in used} == wanted
    assert {script for _, script in used} == {
        p.name for p in (root / "tests/producers/in_tool").glob("with_*.py")
    }
