"""The refusal of each axis: what was asked, what the rows that got this far offer, and what to type instead."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches

from fewbit.registry.table import activation_bits
from fewbit.spec.cell import ANY_SCHEME, M_MAX, Cell, Constraint, KernelRow, Platform
from fewbit.spec.features import name_features, sort_features
from fewbit.spec.op import OPS
from fewbit.spec.refusal import Refusal

Refusals = tuple[Refusal, ...]
Interval = tuple[int, int]

HIDDEN = "hidden by FEWBIT_FEATURES"  # in the description of a platform that the user made lesser
REFERENCE_HINT = "type --allow-reference to run it, slowly, on the reference backend"


@dataclass(frozen=True, slots=True)
class Question:
    """A cell on a platform, with the rows that passed every axis before the one that refuses, out of the whole table."""

    cell: Cell
    platform: Platform
    reached: tuple[KernelRow, ...]
    table: tuple[KernelRow, ...]

    @property
    def subject(self) -> str:
        return f"{self.cell.op} {self.cell.scheme}".rstrip()


def _unique(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value}))


def op(q: Question) -> Refusals:
    return (Refusal("op", q.cell.op, _unique(row.op for row in q.reached), "no kernel declares this op"),)


def kernel(q: Question) -> Refusals:
    near = _unique(row.name for row in q.reached if row.scheme == q.cell.scheme)
    hint = "a kernel asked for by name is used or refused; leave the name out to get the best one"
    return (Refusal("kernel", f"{q.cell.kernel} for {q.subject}", near, hint),)


def scheme(q: Question) -> Refusals:
    if q.cell.kernel:
        asked = f"{q.cell.scheme or 'none'} by kernel {q.cell.kernel}"
        hint = "leave the kernel's name out to get the best one"
        return (Refusal("scheme", asked, _schemes(q.reached), hint),)
    if not _schemes(q.reached):
        return (Refusal("scheme", f"{q.cell.scheme} for {q.cell.op}", (), f"{q.cell.op} takes no scheme"),)
    held = {
        "weight": "use a checkpoint with weights in a scheme that has kernels",
        "cache": "the cache is held in one of these",
    }
    hint = held[OPS[q.cell.op].scheme_of]
    hint += f"; `fewbit support --op {q.cell.op}` shows where each runs"
    near = _nearest(q.cell.scheme, _schemes(q.reached))
    return (Refusal("scheme", f"{q.cell.scheme or 'none'} for {q.cell.op}", near, hint),)


def scale_dtype(q: Question) -> Refusals:
    offered = _unique(dtype for row in q.reached for dtype in row.scale_dtypes)
    hint = f"use a checkpoint whose {q.cell.scheme} scales have such a type"
    if not offered:
        hint = f"{q.cell.scheme} has no scales"
    return (Refusal("scale dtype", f"{q.cell.scale_dtype} for {q.subject}", offered, hint),)


def activation(q: Question) -> Refusals:
    asked = q.cell.activation
    if declared := [row for row in q.table if row.op == q.cell.op and row.activation == asked]:
        hint = f"these schemes have rows of {asked} activations; type --activations 16 to leave activations as they are"
        return (
            Refusal(
                "activations", f"{asked} for {q.subject}", _nearest(q.cell.scheme, _schemes(declared)), hint
            ),
        )
    if asked not in ("auto", "16", "8"):
        return (Refusal("activations", asked, ("auto", "16", "8"), "type --activations auto, 16 or 8"),)
    bits = "16" if asked == "auto" else asked
    others = [r for r in q.table if r.op == q.cell.op and activation_bits(r.activation) == bits]
    instead = "8" if bits == "16" else "auto"
    hint = f"these schemes have {bits}-bit rows; for {q.cell.scheme or 'this'} type --activations {instead}"
    return (
        Refusal("activations", f"{asked} for {q.subject}", _nearest(q.cell.scheme, _schemes(others)), hint),
    )


def layout(q: Question) -> Refusals:
    hint = f"{q.cell.op} reads the layout that the weight was packed in"
    offered = _unique(row.layout for row in q.reached)
    return (Refusal("layout", f"{q.cell.layout} for {q.subject}", offered, hint),)


def backend(q: Question) -> Refusals:
    offered = _unique(row.backend for row in q.reached)
    hint = REFERENCE_HINT if offered == ("reference",) else "leave the backend at auto"
    return (Refusal("backend", f"{q.cell.backend} for {q.subject}", offered, hint),)


def platform(q: Question) -> Refusals:
    """What the row that comes closest needs beyond the platform."""
    provides = q.platform.provides
    nearest = min(q.reached, key=lambda row: (len(row.requires - provides), -row.priority))
    needs = sorted({row.requires for row in q.reached}, key=len)
    asked = f"{q.platform.name} ({name_features(provides)}) for {q.subject}"
    if q.cell.activation != "auto":
        asked += f", activations {q.cell.activation}"
    hint = f"it lacks {', '.join(sort_features(nearest.requires - provides))}"
    if HIDDEN in q.platform.description:
        hint += f" ({q.platform.description})"
    if q.cell.activation == "8":
        hint += "; type --activations auto"
    return (Refusal("platform", asked, tuple(name_features(features) for features in needs), hint),)


def phase(q: Question) -> Refusals:
    return (Refusal("phase", f"{q.cell.phase} for {q.subject}", _unique(row.phase for row in q.reached)),)


def constraint(q: Question) -> Refusals:
    """One refusal for each size axis that stops the row which comes closest."""
    sizes = dict(q.cell.sizes)

    def failed(row: KernelRow) -> list[Constraint]:
        return [c for c in row.constraints if c.axis in sizes and not c.admits(sizes[c.axis])]

    nearest = min(q.reached, key=lambda row: (len(failed(row)), -row.priority))
    hint = f"kernel {nearest.name} comes closest"
    return tuple(
        Refusal(c.axis, f"{sizes[c.axis]} for {q.subject}", _admitted(q.reached, c.axis), hint)
        for c in failed(nearest)
    )


def m_gaps(cell: Cell, gaps: tuple[Interval, ...], served: tuple[Interval, ...]) -> Refusals:
    subject = f"{cell.op} {cell.scheme}".rstrip()
    if cell.kernel:
        hint = f"kernel {cell.kernel} does not serve every M; leave its name out"
    elif cell.activation == "8":
        hint = "there are no 8-bit rows for these M; type --activations auto"
    else:
        hint = "a layer needs a kernel for every M"
    asked = f"{', '.join(describe_m(*gap) for gap in gaps)} for {subject}"
    return (Refusal("M", asked, tuple(describe_m(*interval) for interval in served), hint),)


def offer_reference(refusal: Refusal) -> Refusal:
    return replace(refusal, hint=f"{refusal.hint}; or {REFERENCE_HINT}" if refusal.hint else REFERENCE_HINT)


def describe_m(low: int, high: int) -> str:
    if high >= M_MAX:
        return f"{low}.." if low > 1 else "any"
    return str(low) if low == high else f"{low}..{high}"


def describe_constraint(c: Constraint) -> str:
    words = [f"multiples of {c.multiple}"] if c.multiple > 1 else []
    if c.least > 0:
        words.append(f"at least {c.least}")
    if c.most < M_MAX:
        words.append(f"at most {c.most}")
    return " ".join(words) or "any"


def _nearest(asked: str, schemes: tuple[str, ...], most: int = 8) -> tuple[str, ...]:
    """A few of many: those whose names are most alike."""
    return tuple(get_close_matches(asked, schemes, most, cutoff=0.0)) if len(schemes) > most else schemes


def _schemes(rows: Iterable[KernelRow]) -> tuple[str, ...]:
    return _unique(row.scheme for row in rows if row.scheme != ANY_SCHEME)


def _admitted(rows: Iterable[KernelRow], axis: str) -> tuple[str, ...]:
    constraints = (c for row in rows for c in row.constraints if c.axis == axis)
    return tuple(dict.fromkeys(describe_constraint(c) for c in constraints))
