"""`fewbit support`: the support matrix, or why one cell runs as it does."""

from __future__ import annotations

import itertools
from dataclasses import replace
from difflib import get_close_matches
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.text import Text

from fewbit.cli.output import console, facts, marked, print_json, table
from fewbit.platforms.known import KNOWN, known_platform
from fewbit.registry.attested import read_attestation
from fewbit.registry.explain import Explanation, describe_answer, describe_cell, describe_rows, explain
from fewbit.registry.matrix import Entry, cells, matrix
from fewbit.registry.table import load_rows
from fewbit.spec.cell import Cell, Choice, Platform
from fewbit.spec.op import OPS
from fewbit.spec.refusal import FewbitError

WIDE = 88  # columns from which the matrix of all platforms has room for gaps of two
MEANINGS = {
    "attested": "ran on that platform (docs/attested)",
    "emulated": "its algorithm ran elsewhere, without its instructions",
    "compiled": "it compiles for that platform",
    "declared": "it is written down",
    "refused": "refused; name op and scheme to see why",
}


class SupportError(FewbitError):
    """A cell was asked for by a name that the table does not have."""


def support(
    *,
    formats: bool = False,
    platform: str | None = None,
    scheme: str | None = None,
    op: str | None = None,
    activations: Literal["auto", "16", "8"] | None = None,
    as_json: Annotated[bool, Parameter(name="--json", negative=())] = False,
) -> None:
    """Print the support matrix; with --op and --scheme (or an op that takes none), explain that one cell.

    Parameters
    ----------
    formats
        Print instead which schemes each format of checkpoints holds, how their reading was verified, and where kernels run
        them.
    platform
        One platform: x86_64, x86_avx2, x86_avx512, x86_amx, or `here` for this machine.
    scheme
        One scheme of weights or of the cache, like u4g32o.
    op
        One op, like linear.
    activations
        Bits of the activations that enter a matrix product.
    as_json
        Print JSON.
    """
    platforms = [_platform(platform)] if platform else list(KNOWN.values())
    if formats:
        if scheme or op or activations:
            raise SupportError("--formats goes with --platform and --json alone")
        from fewbit.cli.formats import print_formats, show_formats

        return (print_formats if as_json else show_formats)(platforms)
    asked = _narrow(scheme, op, activations)
    if op and len({replace(cell, activation="auto", phase="any", scale_dtype="") for cell in asked}) == 1:
        told = [
            explain(cell, one, load_rows(), read_attestation())
            for one in platforms
            for cell in asked
            if cell.activation == (activations or "auto").replace("16", "auto")
        ]
        print_json([_explanation_json(e) for e in told]) if as_json else _show_explanations(told)
        return
    entries = [e for e in matrix(load_rows(), platforms, read_attestation()) if e.cell in asked]
    print_json([_entry_json(e) for e in entries]) if as_json else _show_matrix(entries, platforms)


def _platform(name: str) -> Platform:
    if name != "here":
        return known_platform(name)
    from fewbit.platforms.x86.detect import detect

    return detect()


def _narrow(scheme: str | None, op: str | None, activations: str | None) -> list[Cell]:
    """The cells that the options leave; an unknown name is refused with the known ones."""
    if op and op not in OPS:
        raise SupportError(f"unknown op {op!r}; type one of {', '.join(OPS)}")
    known = [cell for cell in cells(load_rows()) if op in (None, cell.op)]
    if scheme and scheme not in {cell.scheme for cell in known}:
        if op:
            return [Cell(op, scheme)]  # not in the table: explained by its refusal
        near = get_close_matches(scheme, dict.fromkeys(cell.scheme for cell in known), 8, cutoff=0.0)
        raise SupportError(
            f"unknown scheme {scheme!r}; did you mean {', '.join(near)}? `fewbit support` lists them all"
        )
    wanted = {None: ("auto", "8", "i8token"), "16": ("auto",)}.get(activations, (activations,))
    return [cell for cell in known if scheme in (None, cell.scheme) and cell.activation in wanted]


def _show_matrix(entries: list[Entry], platforms: list[Platform]) -> None:
    out = console()
    lines: list[list[str | Text] | None] = []
    for op, group in itertools.groupby(entries, key=lambda entry: entry.cell.op):
        first = True
        for cell, answers in itertools.groupby(group, key=lambda entry: entry.cell):
            how = (
                cell.phase
                if cell.phase != "any"
                else cell.activation
                if cell.activation != "auto"
                else "16"
                if op == "linear"
                else ""
            )
            lines.append([op if first else "", cell.scheme, how, *(_answer(entry) for entry in answers)])
            first = False
        lines.append(None)
    gap = 2 if out.width >= WIDE else 1
    out.print(table(["op", "scheme", "for", *(one.name for one in platforms)], lines, gap=gap))
    out.print()
    out.print(facts((marked(state), f"{state}: {meaning}") for state, meaning in MEANINGS.items()))
    out.print(
        "  for: bits of the activations (i8token: int8 as a checkpoint declares it), or the phase\n  amx≥9: from M = 9 rows of activations on",
        style="dim",
    )


def _answer(entry: Entry) -> Text:
    return marked(entry.state, describe_rows(entry.answer) if isinstance(entry.answer, Choice) else "")


def _show_explanations(told: list[Explanation]) -> None:
    out = console()
    for e in told:
        style = "" if isinstance(e.answer, Choice) else "red"
        subject = f"{describe_cell(e.cell)} on {e.platform.name}: "
        out.print(Text.assemble((subject, "bold"), (describe_answer(e.answer), style)))
        rows = [(marked(v.state), v.row.name, Text(str(v), "green" if v.chosen else "")) for v in e.verdicts]
        if rows:
            out.print(table(["", "kernel", "verdict"], rows))


def _choice_json(answer: Choice) -> dict[str, Any]:
    rows = [{"m": [low, high], "kernel": row.name} for low, high, row in answer.rows]
    return {"layout": answer.layout, "kernels": rows}


def _answer_json(answer: Any) -> dict[str, Any]:
    if isinstance(answer, Choice):
        return {"choice": _choice_json(answer)}
    fields = ("axis", "asked", "offered", "hint")
    return {"refusals": [{name: getattr(refusal, name) for name in fields} for refusal in answer]}


def _cell_json(cell: Cell) -> dict[str, Any]:
    return {
        "op": cell.op,
        "scheme": cell.scheme,
        "scale_dtype": cell.scale_dtype,
        "activations": cell.activation,
    }


def _entry_json(entry: Entry) -> dict[str, Any]:
    return (
        _cell_json(entry.cell)
        | {"platform": entry.platform, "state": entry.state}
        | _answer_json(entry.answer)
    )


def _explanation_json(e: Explanation) -> dict[str, Any]:
    rows = [
        {
            "kernel": v.row.name,
            "state": v.state,
            "serves_m": v.chosen or None,
            "verdict": str(v),
        }
        for v in e.verdicts
    ]
    return _cell_json(e.cell) | {"platform": e.platform.name} | _answer_json(e.answer) | {"rows": rows}
