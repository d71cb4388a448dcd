"""How much memory this process can still get."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fewbit.platforms.linux import read
from fewbit.platforms.linux.cgroup import Limits, read_limits


@dataclass(frozen=True, slots=True)
class Memory:
    """`available_bytes` is the lesser of what the machine and the control group have left; `bound` says which."""

    total_bytes: int
    available_bytes: int
    bound: str


def read_memory(root: Path = Path("/"), limits: Limits | None = None) -> Memory:
    info = read.fields(root / "proc/meminfo")
    total, available = info.get("MemTotal", 0) * 1024, info.get("MemAvailable", 0) * 1024
    limits = read_limits(root) if limits is None else limits
    if limits.memory_free_bytes is not None and limits.memory_free_bytes < available:
        assert limits.memory_limit_bytes is not None
        return Memory(
            min(total, limits.memory_limit_bytes), max(0, limits.memory_free_bytes), "control group"
        )
    return Memory(total, available, "machine")


def memory_available(root: Path = Path("/")) -> int:
    """Bytes: min(MemAvailable, control group limit - usage)."""
    return read_memory(root).available_bytes
