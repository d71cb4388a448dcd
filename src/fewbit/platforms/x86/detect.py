"""Which features this machine grants, and why it lacks those that it seems to have.

The kernel library is asked: it checks CPUID (what the core has), XCR0 (what the operating system saves) and, for AMX, the
permission call. Without a library the flags of /proc/cpuinfo stand in, AMX left out, because only the call grants it.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from fewbit import env
from fewbit.library_path import find_library
from fewbit.platforms.known import PlatformError, nearest_known
from fewbit.platforms.x86.mask import apply_mask
from fewbit.spec.cell import Platform
from fewbit.spec.features import FEATURES, sort_features

CPUINFO = Path("/proc/cpuinfo")
AMX_DENIED = "the processor has it, but the operating system or a sandbox refuses the permission (arch_prctl)"
NO_LIBRARY = "not asked for: there is no kernel library to make the permission call"
NOT_SAVED = "the processor has it, but the operating system does not save its registers"


@dataclass(frozen=True, slots=True)
class Detection:
    """`granted` before the mask, `platform` after it; `denied` gives the reason for each feature shown but not granted."""

    platform: Platform
    granted: frozenset[str]
    masked: frozenset[str]
    denied: dict[str, str]
    source: str


def detect() -> Platform:
    """What this process may use here. Its name is the richest known platform that it covers."""
    return detection().platform


@cache
def detection() -> Detection:
    """Asked once: neither the machine nor the environment changes while a process runs."""
    library = find_library()
    shown = read_cpuinfo_flags(CPUINFO)
    granted = ask_library(library) if library else frozenset(f for f in shown if not f.startswith("amx"))
    source = str(library) if library else f"{CPUINFO} (no kernel library found)"
    return judge(shown, granted, env.FEATURES.get(), model_name(CPUINFO), source, asked=library is not None)


def judge(
    shown: frozenset[str],
    granted: frozenset[str],
    mask: frozenset[str],
    model: str,
    source: str,
    *,
    asked: bool,
) -> Detection:
    """Pure: from what is shown, what is granted and what the mask says to the platform and the reasons."""

    def reason(feature: str) -> str:
        if not feature.startswith("amx"):
            return NOT_SAVED
        return AMX_DENIED if asked else NO_LIBRARY

    provides = apply_mask(granted, mask)
    denied = {feature: reason(feature) for feature in FEATURES if feature in shown - granted}
    if masked := sort_features(granted - provides):
        model += f"; hidden by FEWBIT_FEATURES: {', '.join(masked)}"
    platform = Platform(nearest_known(provides).name, provides, model)
    return Detection(platform, granted, granted - provides, denied, source)


def ask_library(path: Path) -> frozenset[str]:
    """fb_cpu_features; it alone is called, so a library of another version still answers."""
    try:
        function = ctypes.CDLL(str(path)).fb_cpu_features
    except (OSError, AttributeError) as error:
        raise PlatformError(f"the kernel library {path} cannot be used ({error}); run `make setup`") from None
    function.restype, function.argtypes = ctypes.c_int32, [ctypes.c_char_p, ctypes.c_int32]
    text = ctypes.create_string_buffer(1024)
    function(text, len(text))
    return frozenset(filter(None, text.value.decode().split(",")))


def read_cpuinfo_flags(path: Path) -> frozenset[str]:
    """Features among the flags of the first processor; Linux names them as we do."""
    return frozenset(FEATURES).intersection(_field(path, "flags").split())


def model_name(path: Path) -> str:
    return _field(path, "model name")


def _field(path: Path, name: str) -> str:
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return ""
    return next(
        (line.partition(":")[2].strip() for line in lines if line.partition(":")[0].strip() == name), ""
    )
