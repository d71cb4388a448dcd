"""Rotary settings of config.json: `rope_theta` with `rope_scaling`, or both in the newer `rope_parameters`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fewbit.formats.folder.config import Reader

# Key of each kind of scaling: is it required?
KINDS: dict[str, dict[str, bool]] = {
    "default": {},
    "linear": {"factor": True},
    "llama3": {"factor": True, "low_freq_factor": True, "high_freq_factor": True, "original_max_position_embeddings": True},
    "yarn": {"factor": True, "original_max_position_embeddings": False, "attention_factor": False, "beta_fast": False,
             "beta_slow": False, "mscale": False, "mscale_all_dim": False, "truncate": False},
}  # fmt: skip


def rope(reader: Reader, config: dict[str, Any]) -> tuple[float, dict[str, Any] | None]:
    """rope_theta and rope_scaling as the older form writes them; rope_scaling is None when it changes nothing."""
    new, old = reader.values.get("rope_parameters"), reader.values.get("rope_scaling")
    if new is not None and old is not None and new != old:
        reader.fail("has both 'rope_parameters' and 'rope_scaling', and they differ; expected one of them")
    where = "rope_parameters" if new is not None else "rope_scaling"
    settings: dict[str, Any] = dict(new if new is not None else old or {})
    theta = settings.pop("rope_theta", None)
    theta = config["rope_theta"] if theta is None else theta
    theta = 10000.0 if theta is None else theta
    if not _positive(theta):
        reader.fail(f"key 'rope_theta' is {theta!r}, expected a finite number above 0")
    kind = settings.pop("rope_type", None) or settings.get("type") or "default"
    settings.pop("type", None)
    if kind not in KINDS:
        reader.fail(
            f"key {where!r} asks for {kind!r}, which is not supported (supported: {', '.join(KINDS)})"
        )
    keys = KINDS[kind]
    for name, value in settings.items():
        if name not in keys:
            reader.fail(
                f"key {name!r} of {where!r} is unknown for scaling {kind!r} (known: {', '.join(keys) or 'none'})"
            )
        if name == "truncate" and isinstance(value, bool):
            continue
        if value is not None and not _positive(value):
            reader.fail(f"key {name!r} of {where!r} is {value!r}, expected a finite number above 0")
    settings = {name: value for name, value in settings.items() if value is not None}
    missing = [name for name, required in keys.items() if required and name not in settings]
    if missing:
        reader.fail(f"key {missing[0]!r} of {where!r} is absent, which scaling {kind!r} needs")
    if kind == "default":
        return float(theta), None
    if kind == "yarn":
        settings.setdefault("original_max_position_embeddings", config["max_position_embeddings"])
    return float(theta), {"rope_type": kind, **settings}


def _positive(value: Any) -> bool:
    return type(value) in (int, float) and 0 < value < math.inf
