"""Results as CSV: one line a cell, each with the machine's fingerprint."""

from __future__ import annotations

import csv
from pathlib import Path

from fewbit.bench.linear import Report, Result


def write(path: Path, report: Report, fingerprint: dict[str, str]) -> None:
    lines = [columns(result, report) | fingerprint for result in report.results]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(lines[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(lines)


def columns(result: Result, report: Report) -> dict[str, str]:
    """Times of one product in microseconds; shares of the mean of the roofs before and after."""
    peak, value = result.peak
    return {
        "asked": result.asked.name,
        "scheme": result.asked.scheme,
        "scale": result.asked.scale,
        "model": result.shape.model,
        "layer": result.shape.layer,
        "n": str(result.shape.n),
        "k": str(result.shape.k),
        "m": str(result.m),
        "kernel": result.row.name,
        "threads": str(report.threads),
        "rounds": str(len(result.seconds)),
        "median_us": f"{result.median * 1e6:.2f}",
        "least_us": f"{min(result.seconds) * 1e6:.2f}",
        "most_us": f"{max(result.seconds) * 1e6:.2f}",
        "weight_bytes": str(result.weight_bytes),
        "gb_per_s": f"{result.bytes_per_s / 1e9:.2f}",
        "of_read": f"{result.bytes_per_s / result.roofs.read:.4f}",
        "tflop_per_s": f"{result.ops_per_s / 1e12:.4f}",
        "of_peak": f"{result.ops_per_s / value:.4f}",
        "bound_by": result.roof.term,
        "of_roof": f"{result.roof.seconds / result.median:.4f}",
        "step_ratio": f"{result.step:.3f}" if result.step else "",
        "answer": result.fault or "checked",
        "read_before_gb_per_s": f"{report.before.read / 1e9:.2f}",
        "read_after_gb_per_s": f"{report.after.read / 1e9:.2f}",
        "peak": peak,
        "peak_before_tflop_per_s": f"{report.before.peaks[peak] / 1e12:.4f}",
        "peak_after_tflop_per_s": f"{report.after.peaks[peak] / 1e12:.4f}",
    }
