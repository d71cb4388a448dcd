"""Where checkpoints of the formats' own tools are kept: a subset inside the clone, and the whole folder where it is there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fewbit import env
from tests.conftest import ROOT


@dataclass(frozen=True)
class Store:
    """`folder` holds manifest.json and checkpoints/<name>/."""

    name: str
    folder: Path

    def entries(self) -> dict[str, dict[str, Any]]:
        """The manifest's entries by checkpoint."""
        return _entries(self.folder)

    def checkpoint(self, name: str) -> Path:
        return self.folder / "checkpoints" / name


@cache
def _entries(folder: Path) -> dict[str, dict[str, Any]]:
    entries = json.loads((folder / "manifest.json").read_text())["checkpoints"]
    return {entry["name"]: entry for entry in entries}


SUBSET = Store("subset", ROOT / "tests" / "data" / "checkpoints")


def whole() -> Store | None:
    """None when no folder is named and the default one is not beside the checkout; a folder that is named must be one."""
    named = env.ORACLES.get()
    folder = named or ROOT.parent / "shared" / "oracles"
    if named or (folder / "manifest.json").is_file():
        return Store("whole", folder)
    return None


def stores() -> list[Store]:
    found = whole()
    return [SUBSET, found] if found else [SUBSET]
