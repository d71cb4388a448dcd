"""FEWBIT_FEATURES: hides features (`-amx`, `-avx512_bf16`) or insists on them (`amx`), so that nothing degrades unseen.

A name is a feature or an instruction set. Hiding `-avx512` hides all that begins so; insisting on `avx512` asks for what
that instruction set's kernels require.
"""

from __future__ import annotations

from collections.abc import Iterable

from fewbit.platforms.known import PlatformError
from fewbit.spec.features import FEATURES, ISAS, sort_features

HIDDEN_FAMILIES = {
    "avx2": ISAS["avx2"].requires,
    "avx512": frozenset(f for f in FEATURES if f.startswith("avx512")),
    "amx": frozenset(f for f in FEATURES if f.startswith("amx")),
}
_INSISTED = {name: ISAS[name].requires for name in HIDDEN_FAMILIES}


def expand(name: str, families: dict[str, frozenset[str]]) -> frozenset[str]:
    """The features that a name means."""
    if name in families:
        return families[name]
    if name in FEATURES:
        return frozenset({name})
    known = ", ".join(dict.fromkeys([*families, *FEATURES]))
    raise PlatformError(f"FEWBIT_FEATURES names an unknown feature {name!r}; known: {known}")


def apply_mask(provides: frozenset[str], items: Iterable[str]) -> frozenset[str]:
    """What stays of `provides`; items are `-name` (hide) or `name` (must be there once the others are hidden)."""
    hidden = sorted(item[1:] for item in items if item.startswith("-"))
    insisted = sorted(item for item in items if not item.startswith("-"))
    for name in hidden:
        provides -= expand(name, HIDDEN_FAMILIES)
    for name in insisted:
        if lacking := expand(name, _INSISTED) - provides:
            raise PlatformError(
                f"FEWBIT_FEATURES asks for {name}, but this machine does not provide "
                f"{', '.join(sort_features(lacking))}; see `fewbit doctor`, or leave {name} out"
            )
    return provides
