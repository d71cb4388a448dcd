"""On what machine and with which build something was measured. A speed without it means nothing."""

from __future__ import annotations

import datetime
import hashlib
import os
import platform as python_platform

from fewbit import __version__
from fewbit.library_path import find_library
from fewbit.platforms.linux.cgroup import read_limits
from fewbit.platforms.linux.topology import read_topology
from fewbit.platforms.x86.detect import detect


def library_build() -> str:
    """The first 12 hexadecimal digits of the library file's SHA-256."""
    path = find_library()
    return hashlib.sha256(path.read_bytes()).hexdigest()[:12] if path else "none"


def fingerprint() -> dict[str, str]:
    """Columns that every result carries."""
    machine, topology, limits = detect(), read_topology(), read_limits()
    return {
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d"),
        "platform": machine.name,
        "cpu": machine.description,
        "cores": str(len(topology.cores)),
        "cpu_quota": "none" if limits.cpu_quota is None else f"{limits.cpu_quota:g}",
        "features": " ".join(sorted(machine.provides)),
        "linux": python_platform.release(),
        "python": python_platform.python_version(),
        "fewbit": __version__,
        "library": library_build(),
        "load": f"{os.getloadavg()[0]:.2f}",
    }
