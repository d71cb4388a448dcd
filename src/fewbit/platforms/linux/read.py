"""Small readers of /proc and /sys files under a root folder; a missing or unreadable file gives None."""

from __future__ import annotations

from pathlib import Path

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def text(path: Path) -> str | None:
    try:
        return path.read_text().strip()
    except OSError:
        return None


def integer(path: Path) -> int | None:
    """None also for `max`, as version 2 control groups write where there is no limit."""
    content = text(path)
    return int(content) if content and content.lstrip("-").isdecimal() else None


def size(path: Path) -> int:
    """Bytes of `32K`, `1024K`, `32M`; 0 when absent."""
    content = text(path) or "0"
    number = content.rstrip("KMG")
    return int(number) * _UNITS[content[len(number) :]]


def cpus(path: Path) -> frozenset[int]:
    """A CPU list in kernel notation, `0-3,8`; empty when absent."""
    return parse_cpus(text(path) or "")


def parse_cpus(content: str) -> frozenset[int]:
    found: set[int] = set()
    for item in filter(None, content.split(",")):
        first, _, last = item.partition("-")
        found.update(range(int(first), int(last or first) + 1))
    return frozenset(found)


def format_cpus(numbers: frozenset[int] | tuple[int, ...]) -> str:
    """Kernel notation, `0-3,8`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def fields(path: Path) -> dict[str, int]:
    """`name value` lines (memory.stat) or `name: value kB` lines (meminfo), values in the file's own unit."""
    found = {}
    for line in (text(path) or "").splitlines():
        words = line.replace(":", " ").split()
        if len(words) >= 2 and words[1].isdecimal():
            found[words[0]] = int(words[1])
    return found
