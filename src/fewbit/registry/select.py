"""The choice of kernels for a cell on a platform: a pure function of the table.

Rows are sieved axis by axis, in the order of `AXES`. Where the last row falls, that axis is the refusal, so it names the
most specific thing that failed. Of the rows that stay, one layout is taken (a weight is packed once) and, for each
interval of M, the row of highest priority.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from fewbit.registry import refusals
from fewbit.registry.table import activation_bits, load_rows
from fewbit.spec.cell import ANY_SCHEME, M_MAX, Cell, Choice, KernelRow, Platform
from fewbit.spec.refusal import Refusal

Intervals = tuple[tuple[int, int, KernelRow], ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """One sieve: which rows pass, and the refusal when none of `reached` (those that came to it, out of `table`) does."""

    name: str
    admits: Callable[[KernelRow, Cell, Platform], bool]
    refuse: Callable[[refusals.Question], tuple[Refusal, ...]]


def _scheme(row: KernelRow, cell: Cell, _: Platform) -> bool:
    return row.scheme == cell.scheme or (row.scheme == ANY_SCHEME and bool(cell.scheme))


def _scale_dtype(row: KernelRow, cell: Cell, _: Platform) -> bool:
    return row.scheme == ANY_SCHEME or cell.scale_dtype in ("", *row.scale_dtypes)


def _activation(row: KernelRow, cell: Cell, _: Platform) -> bool:
    bits = activation_bits(row.activation)
    return (
        not bits or cell.activation in (row.activation, bits) or (bits == "16" and cell.activation == "auto")
    )


def _backend(row: KernelRow, cell: Cell, _: Platform) -> bool:
    asked = "reference" if cell.kernel and row.backend == "reference" else cell.backend
    return row.backend != "reference" if asked == "auto" else row.backend == asked


def _constraints(row: KernelRow, cell: Cell, _: Platform) -> bool:
    sizes = dict(cell.sizes)
    return all(c.axis not in sizes or c.admits(sizes[c.axis]) for c in row.constraints)


AXES = (
    Axis("op", lambda row, cell, _: row.op == cell.op, refusals.op),
    Axis("kernel", lambda row, cell, _: cell.kernel in ("", row.name), refusals.kernel),
    Axis("scheme", _scheme, refusals.scheme),
    Axis("scale dtype", _scale_dtype, refusals.scale_dtype),
    Axis("activation", _activation, refusals.activation),
    Axis("layout", lambda row, cell, _: cell.layout in ("", row.layout), refusals.layout),
    Axis("backend", _backend, refusals.backend),
    Axis("platform", lambda row, _, platform: row.requires <= platform.provides, refusals.platform),
    Axis("phase", lambda row, cell, _: row.phase in ("any", cell.phase), refusals.phase),
    Axis("constraint", _constraints, refusals.constraint),
)


def select(
    cell: Cell, platform: Platform, rows: Iterable[KernelRow] | None = None
) -> Choice | tuple[Refusal, ...]:
    """The layout and the row of each M interval, or why not. Rows that emulate are never chosen."""
    table = tuple(row for row in (load_rows() if rows is None else rows) if not row.emulates)
    answer = _sieve(cell, platform, table)
    if isinstance(answer, Choice):
        return answer
    if cell.backend == "auto" and not cell.kernel and _has_reference(cell, platform, table):
        return tuple(refusals.offer_reference(refusal) for refusal in answer)
    return answer


def rejections(cell: Cell, platform: Platform, rows: Iterable[KernelRow]) -> list[tuple[KernelRow, str]]:
    """Every row with the first axis that rejects it for this cell ("" when it matches): what `explain` tells."""
    told = []
    for row in rows:
        axis = next((axis.name for axis in AXES if not axis.admits(row, cell, platform)), "")
        told.append((row, "emulation" if row.emulates else axis))
    return told


def _sieve(cell: Cell, platform: Platform, table: tuple[KernelRow, ...]) -> Choice | tuple[Refusal, ...]:
    if cell.backend == "auto" and not cell.kernel:  # so that no refusal offers what only the reference has
        table = tuple(row for row in table if row.backend != "reference")
    rows = table
    for axis in AXES:
        passed = tuple(row for row in rows if axis.admits(row, cell, platform))
        if not passed:
            return axis.refuse(refusals.Question(cell, platform, rows, table))
        rows = passed
    return _choose_layout(cell, rows)


def _choose_layout(cell: Cell, rows: tuple[KernelRow, ...]) -> Choice | tuple[Refusal, ...]:
    """Of the layouts that serve every M, the one with the best row (then the one whose least row is best)."""
    whole: list[Choice] = []
    partial: list[Intervals] = []
    for layout in sorted({row.layout for row in rows}):
        intervals = _intervals(tuple(row for row in rows if row.layout == layout))
        if _gaps(intervals):
            partial.append(intervals)
        else:
            whole.append(Choice(layout, intervals))
    if whole:
        return max(whole, key=_rank)
    best = min(partial, key=lambda intervals: sum(high - low + 1 for low, high in _gaps(intervals)))
    return refusals.m_gaps(cell, _gaps(best), tuple((low, high) for low, high, _ in best))


def _rank(choice: Choice) -> tuple[int, int, str]:
    priorities = [row.priority for _, _, row in choice.rows]
    return max(priorities), min(priorities), choice.layout


def _intervals(rows: tuple[KernelRow, ...]) -> Intervals:
    """The row of highest priority for each interval of M, neighbours with the same row joined."""
    edges = {1} | {row.m_range[0] for row in rows} | {row.m_range[1] + 1 for row in rows}
    starts = sorted(edges - {M_MAX + 1})
    found: list[tuple[int, int, KernelRow]] = []
    for low, after in zip(starts, [*starts[1:], M_MAX + 1], strict=True):
        serving = [row for row in rows if row.m_range[0] <= low <= row.m_range[1]]
        if not serving:
            continue
        best = max(serving, key=lambda row: (row.priority, row.name))
        if found and found[-1][2] is best and found[-1][1] == low - 1:
            low = found.pop()[0]
        found.append((low, after - 1, best))
    return tuple(found)


def _gaps(intervals: Intervals) -> tuple[tuple[int, int], ...]:
    """Intervals of M in [1, M_MAX] that no row serves."""
    gaps, next_m = [], 1
    for low, high, _ in intervals:
        if low > next_m:
            gaps.append((next_m, low - 1))
        next_m = high + 1
    if next_m <= M_MAX:
        gaps.append((next_m, M_MAX))
    return tuple(gaps)


def _has_reference(cell: Cell, platform: Platform, rows: tuple[KernelRow, ...]) -> bool:
    asked = Cell(cell.op, cell.scheme, cell.scale_dtype, cell.activation, cell.phase, cell.sizes, "reference")
    return isinstance(_sieve(asked, platform, rows), Choice)
