"""Results as lines of a table, for people."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from fewbit.bench.linear import Report, Result
from fewbit.bench.roofs import Roofs

COLUMNS = (
    "M",
    "kernel",
    "time",
    "GB/s",
    "of R",
    "TFLOP/s",
    "of peak",
    "bound by",
    "of roof",
    "step(M)/step(1)",
)
NUMBERS = ("M", "time", "GB/s", "of R", "TFLOP/s", "of peak", "of roof", "step(M)/step(1)")


def groups(results: Sequence[Result]) -> Iterator[tuple[str, list[list[str]]]]:
    """For each scheme and shape its title and a line for each M."""
    by: dict[str, list[list[str]]] = {}
    for result in results:
        name = result.asked.scheme + (f", scales {result.asked.scale}" if result.asked.scale else "")
        alias = f"{result.asked.name} = " if result.asked.name != result.asked.scheme else ""
        title = f"{alias}{name}  {result.shape}  {result.weight_bytes / 1e6:.1f} MB"
        by.setdefault(title, []).append(line(result))
    yield from by.items()


def line(result: Result) -> list[str]:
    return [
        str(result.m),
        result.row.name,
        duration(result.median),
        f"{result.bytes_per_s / 1e9:.1f}",
        f"{result.bytes_per_s / result.roofs.read:.0%}",
        f"{result.ops_per_s / 1e12:.2f}",
        f"{result.ops_per_s / result.peak[1]:.0%}",
        result.roof.term,
        f"{result.roof.seconds / result.median:.0%}",
        (f"{result.step:.2f}" if result.step else "") + (f"  WRONG: {result.fault}" if result.fault else ""),
    ]


def duration(seconds: float) -> str:
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def roof_lines(report: Report) -> list[list[str]]:
    """Name, before, after, unit: in registers is P16 or P8 of tiles, from L1 is L16 or L8."""
    lines = [_pair("R, memory read", "GB/s", report, lambda roofs: roofs.read / 1e9)]
    for name in report.before.peaks:
        lines.append(_pair(name, "TFLOP/s", report, partial(_peak, name)))
    return [*lines, _pair("barrier", "µs", report, lambda roofs: roofs.barrier * 1e6)]


def _peak(name: str, roofs: Roofs) -> float:
    return roofs.peaks[name] / 1e12


def _pair(name: str, unit: str, report: Report, value: Callable[[Roofs], float]) -> list[str]:
    return [name, f"{value(report.before):.3g}", f"{value(report.after):.3g}", unit]
