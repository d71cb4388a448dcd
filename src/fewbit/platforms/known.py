"""Platforms by name: what `--platform` takes, the columns of the support matrix, the rows of the CI matrix."""

from __future__ import annotations

from fewbit.spec.cell import Platform
from fewbit.spec.features import ISAS
from fewbit.spec.refusal import FewbitError

KNOWN = {
    platform.name: platform
    for platform in (
        Platform("x86_64", frozenset(), "any 64-bit x86 processor; scalar kernels"),
        Platform("x86_avx2", ISAS["avx2"].requires, "Haswell, Zen 1 to 3"),
        Platform("x86_avx512", ISAS["avx512_vnni"].requires, "Ice Lake server, Zen 4 and later"),
        Platform("x86_amx", ISAS["amx"].requires, "Sapphire Rapids server and later"),
    )
}


class PlatformError(FewbitError):
    """A platform or feature that is not known, or that this machine lacks."""


def known_platform(name: str) -> Platform:
    try:
        return KNOWN[name]
    except KeyError:
        raise PlatformError(f"unknown platform {name!r}; type one of {', '.join(KNOWN)}") from None


def nearest_known(provides: frozenset[str]) -> Platform:
    """The richest known platform whose features are all provided; `x86_64` provides nothing, so there is always one."""
    return max((p for p in KNOWN.values() if p.provides <= provides), key=lambda p: len(p.provides))
