"""`fewbit bench`: the speed of kernels on this machine, beside the roofs measured in the same run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from fewbit.cli.output import console, table
from fewbit.spec.refusal import FewbitError

if TYPE_CHECKING:
    from fewbit.bench.linear import Report

WIDE = 150  # columns that the table takes where nobody looks at a terminal

bench = App(name="bench")


class BenchError(FewbitError):
    """Something asked for cannot be measured, or what was measured is wrong."""


@bench.command
def linear(
    *,
    schemes: str = "common",
    shapes: Annotated[str, Parameter(name=("--shapes", "--shape"))] = "llama-3.1-8b",
    m: Annotated[str, Parameter(name="--m")] = "1,8,32,128,512",
    activations: Literal["auto", "16", "8"] = "auto",
    load_format: Literal["dummy"] = "dummy",
    threads: int | None = None,
    rounds: int = 7,
    seconds: float = 600.0,
    rotate_bytes: int = 1_500_000_000,
    csv: Path | None = None,
    plot: Path | None = None,
) -> None:
    """Time matrix products with random weights, each by the kernel that serving would choose, beside this machine's roofs.

    Products of all schemes, shapes and M are interleaved in an order that rotates, and each answer is checked before; exits
    with 1 when one is wrong.

    Parameters
    ----------
    schemes
        Names split by commas: as `fewbit support` lists them (u4g128z, or u4g128z:bf16 for the type of scales), as users know
        them (q4_k, w4a16-g128, awq, fp8-block, mxfp4, nf4, ...), `common`, or `all`.
    shapes
        A model's layers (llama-3.1-8b, qwen3-4b, qwen3-30b-a3b, gpt-oss-20b, deepseek-v2-lite, smollm2-135m), one of them
        (llama-3.1-8b/down), or N x K (14336x4096); split by commas.
    m
        Rows of activations, split by commas.
    activations
        Bits of the activations, as `fewbit serve` has it.
    load_format
        What the weights are: dummy, random ones of the shape.
    threads
        Threads of the pool; by default one for each physical core.
    rounds
        How often each product is timed; the median counts.
    seconds
        Begin no round that would not end within so many seconds of the start.
    rotate_bytes
        Bytes of other weights that are read before one is read again, more than the caches hold.
    csv
        Write the results there, with the machine's fingerprint.
    plot
        Draw the roofline there, as PNG (needs `pip install 'fewbit[plot]'`).
    """
    from fewbit.bench import csv_file
    from fewbit.bench import plot as drawing
    from fewbit.bench.linear import Wish, run
    from fewbit.bench.schemes import parse_schemes
    from fewbit.bench.shapes import parse_shapes
    from fewbit.kernels.cpu.backend import CpuBackend
    from fewbit.platforms.fingerprint import fingerprint
    from fewbit.platforms.x86.detect import detect

    wish = Wish(
        parse_schemes(schemes), parse_shapes(shapes), _rows(m), activations, rounds, rotate_bytes, seconds
    )  # fmt: skip
    if rounds < 1 or rotate_bytes < 0:
        raise BenchError(
            f"--rounds {rounds} --rotate-bytes {rotate_bytes}: type 1 round or more, and no bytes below 0"
        )
    for path in filter(None, (csv, plot)):
        if not path.resolve().parent.is_dir():
            raise BenchError(f"{path} lies in no folder that exists; make {path.resolve().parent} first")
    if plot:
        drawing.require()
    facts = fingerprint()
    report = run(wish, CpuBackend(detect(), threads), lambda text: print(text, file=sys.stderr, flush=True))
    _show(report, facts)
    if csv:
        csv_file.write(csv, report, facts)
        print(f"wrote {csv}")
    if plot:
        drawing.draw(plot, report.results, f"{facts['cpu']}, {report.threads} threads, {facts['date']}")
        print(f"wrote {plot}")
    wrong = [result for result in report.results if result.fault]
    if wrong:
        first = wrong[0]
        raise BenchError(
            f"{len(wrong)} of {len(report.results)} answers are wrong; {first.row.name} {first.shape} M={first.m}: {first.fault}"
        )


def _rows(text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdecimal() and 0 < int(part) <= 1 << 16 for part in parts):
        raise BenchError(
            f"--m {text!r} is no list of row counts; type numbers of 1 to 65536 split by commas, like 1,8,32"
        )
    return tuple(sorted({int(part) for part in parts}))


def _show(report: Report, facts: dict[str, str]) -> None:
    from fewbit.bench.table import COLUMNS, NUMBERS, groups, roof_lines

    out = console()
    if not out.is_terminal:
        out.width = max(out.width, WIDE)
    out.print(
        f"{facts['cpu']}, {facts['platform']}, {report.threads} threads; {facts['date']}, load {facts['load']}, library "
        f"{facts['library']}; {report.resident_bytes / 1e9:.1f} GB of weights in turn, answers checked",
        markup=False,
    )
    out.print(table(("roof", "before", "after", "unit"), roof_lines(report), right=("before", "after")))
    for title, lines in groups(report.results):
        out.print(f"\n{title}", style="bold", markup=False)
        out.print(table(COLUMNS, lines, right=NUMBERS))
    for text in (*report.notes, *report.refused):
        out.print(text, markup=False, style="yellow")
