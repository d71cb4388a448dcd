"""Prints what `fewbit inspect --verify` found: the two-way account, the numbers of every kind of tensor, and all faults."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fewbit.cli.output import console, facts, print_json, table
from fewbit.config import format_bytes

if TYPE_CHECKING:
    from fewbit.formats.checkpoint import Checkpoint
    from fewbit.loader.ranges import Range
    from fewbit.loader.verify import Verification

SHOWN = 3  # names listed of a kind of thing


def verify_with_progress(checkpoint: Checkpoint) -> Verification:
    from fewbit.cli.bar import ByteBar
    from fewbit.loader.verify import verify

    with ByteBar(f"reading {checkpoint.path.name}", speed=True) as bar:
        return verify(checkpoint, bar)


def show(checkpoint: Checkpoint, found: Verification) -> None:
    out = console()
    out.print(facts([*_head(checkpoint, found), *_cache(found), *_rules(checkpoint, found)]))
    out.print()
    lines: list[list[str | Text] | None] = []
    for kind in sorted(found.kinds, key=lambda kind: kind.scheme in ("f32", "f16", "bf16")):
        first = [kind.place, f"×{kind.tensors}", kind.scheme]
        for role, what in kind.parts.items() or [("", None)]:
            lines.append([*first, role, *_numbers(what, role)])
            first = ["", "", ""]
    for leaf, what in found.beside.items():
        lines.append([leaf, f"×{what.count}", "", "value", *_numbers(what, leaf)])
    out.print(
        table(["tensors", "", "scheme", "part", "least", "most", "remarks"], lines, right=("least", "most"))
    )
    if found.zero:
        out.print(Text(f"zero throughout: {_some(found.zero)}", "yellow"))
    for fault in found.faults:
        out.print(Text(fault, "red"))


def _head(checkpoint: Checkpoint, found: Verification) -> list[tuple[str, str]]:
    account, canonical = found.account, len(checkpoint.tensors)
    if found.parameters is None:
        model = (
            f"no family serves {checkpoint.model_type!r}, so only the format's own account is proved: every tensor of the disk "
            "used or explained, once"
        )
    else:
        model = f"{found.parameters} of {found.parameters} parameters filled ({checkpoint.model_type})"
    parts = f"{len(account.weights)} are parts of {canonical} weights, {len(account.beside)} lie beside them"
    rate = found.bytes_read / max(found.seconds, 1e-9) / 1e9
    return [
        ("model", str(checkpoint.path)),
        ("format", checkpoint.format),
        ("on disk", f"{account.count} tensors: {parts}, {len(account.explained)} are unused"),
        ("complete", model if not found.faults else "no, see below"),
        ("read", f"{format_bytes(found.bytes_read)} in {found.seconds:.2f} s, {rate:.2f} GB/s"),
    ]


def _cache(found: Verification) -> list[tuple[str, str]]:
    if not found.cache:
        return [("cache scales", "none")]
    values = found.cache.values()
    told = [("cache scales", f"{len(values)}, from {min(values):.4g} to {max(values):.4g}")]
    return told + ([("", f"missing: {_some(found.no_cache)}")] if found.no_cache else [])


def _rules(checkpoint: Checkpoint, found: Verification) -> list[tuple[str, str]]:
    told = []
    for label, reasons in (("unquantized", checkpoint.unquantized), ("unused", found.account.explained)):
        by_reason: dict[str, list[str]] = {}
        for name, why in reasons.items():
            by_reason.setdefault(why, []).append(name)
        texts = [f"{why}: {_some(names)}" for why, names in by_reason.items()]
        told += [(label if i == 0 else "", text) for i, text in enumerate(texts)]
    return told


def _numbers(what: Range | None, role: str) -> list[str]:
    """Least, most, and what is unusual: of scales also a negative number."""
    if what is None or not what.count:
        return ["–", "–", ""]
    negative = what.negative if role.endswith("scale") else 0
    remarks = {
        "zero": what.zero,
        "negative": negative,
        "subnormal": what.subnormal,
        "saturated": what.saturated,
    }
    return [
        f"{what.least:.3g}",
        f"{what.most:.3g}",
        ", ".join(f"{n} {word}" for word, n in remarks.items() if n),
    ]


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more


def print_as_json(checkpoint: Checkpoint, found: Verification) -> None:
    account: dict[str, Any] = {
        "weights": len(found.account.weights),
        "beside": len(found.account.beside),
        "explained": dict(found.account.explained),
    }
    print_json(
        {
            "path": str(checkpoint.path),
            "format": checkpoint.format,
            "model_type": checkpoint.model_type,
            "complete": not found.faults,
            "faults": found.faults,
            "disk_tensors": account,
            "weights": len(checkpoint.tensors),
            "parameters_filled": found.parameters,
            "unquantized": dict(checkpoint.unquantized),
            "kinds": [asdict(kind) for kind in found.kinds],
            "zero_throughout": found.zero,
            "beside": {leaf: asdict(what) for leaf, what in found.beside.items()},
            "cache_scales": found.cache,
            "cache_scales_missing": found.no_cache,
            "bytes_read": found.bytes_read,
            "seconds": found.seconds,
        }
    )
