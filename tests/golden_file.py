"""Comparison with a committed file, and the way to write it anew: `FEWBIT_UPDATE_GOLDEN=1 pytest ...`."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

UPDATE = "FEWBIT_UPDATE_GOLDEN"


def check_golden(path: Path, text: str) -> None:
    if os.environ.get(UPDATE) == "1":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    expected = path.read_text() if path.exists() else ""
    if text != expected:
        diff = difflib.unified_diff(
            expected.splitlines(), text.splitlines(), "committed", "now", lineterm="", n=1
        )
        shown = "\n".join(list(diff)[:40])
        raise AssertionError(f"{path.name} differs; if that is meant, run this test with {UPDATE}=1\n{shown}")
