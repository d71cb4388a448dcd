"""The name of a repository on the hub: `org/name`, `org/name@revision`, `org/name:FILE`, `org/name@revision:FILE`."""

from __future__ import annotations

import re
from dataclasses import dataclass

_NAME = re.compile(
    r"(?P<repo>[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*)(?:@(?P<revision>[^\s@:]+))?(?::(?P<file>[^\s@:]+))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class HubName:
    """`revision`: a branch, tag or commit, "" for the default branch. `file`: which GGUF, as a type or a file's name."""

    repo: str
    revision: str = ""
    file: str = ""

    def __str__(self) -> str:
        return self.repo + (f"@{self.revision}" if self.revision else "")


def parse_name(text: str) -> HubName | None:
    """None where the text is no such name. The hub's own rules (no `--`, no `..`, 96 characters) are checked on use."""
    found = _NAME.fullmatch(text)
    return found and HubName(found["repo"], found["revision"] or "", found["file"] or "")
