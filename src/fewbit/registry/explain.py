"""Why a cell runs as it does: every row of its op, what rejects it, and the choice or the refusal in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fewbit.registry.attested import Attestation
from fewbit.registry.grammar import parse_name
from fewbit.registry.refusals import describe_constraint, describe_m
from fewbit.registry.select import rejections, select
from fewbit.spec.cell import Cell, Choice, KernelRow, Platform, State
from fewbit.spec.features import name_features
from fewbit.spec.refusal import Refusal

REASONS = {
    "": "lower priority",
    "backend": "{row.backend} backend, on request only",
    "platform": "needs {lacking}",
    "activation": "activations {row.activation}, not asked for",
    "layout": "layout {row.layout}",
    "scale dtype": "scales {scales}",
    "kernel": "another kernel is asked for by name",
    "phase": "{row.phase} only",
    "constraint": "{constraints}",
    "emulation": "emulation, for tests",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """One row and what becomes of it: `chosen` for some M, or the reason why not."""

    row: KernelRow
    chosen: str
    reason: str
    state: State

    def __str__(self) -> str:
        return (
            f"serves {'every M' if self.chosen == 'any' else f'M {self.chosen}'}"
            if self.chosen
            else self.reason
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    cell: Cell
    platform: Platform
    answer: Choice | tuple[Refusal, ...]
    verdicts: tuple[Verdict, ...]

    def __str__(self) -> str:
        """One line of choice or refusal, then one line for each row of the scheme."""
        lines = [f"{describe_cell(self.cell)} on {self.platform.name}: {describe_answer(self.answer)}"]
        for verdict in self.verdicts:
            lines.append(f"  {verdict.row.name} ({verdict.state}): {verdict}")
        return "\n".join(lines)


def explain(
    cell: Cell, platform: Platform, rows: Iterable[KernelRow], attestation: Attestation
) -> Explanation:
    rows = tuple(rows)
    answer = select(cell, platform, rows)
    chosen: dict[str, str] = {}
    if isinstance(answer, Choice):
        for low, high, row in answer.rows:
            chosen[row.name] = ", ".join(filter(None, (chosen.get(row.name), describe_m(low, high))))
    same = [row for row in rows if (row.op, row.scheme) == (cell.op, cell.scheme)]
    verdicts = [
        Verdict(
            row,
            chosen.get(row.name, ""),
            _reason(row, axis, platform),
            attestation.state(row, platform.name, rows),
        )
        for row, axis in rejections(cell, platform, same)
    ]
    ranked = sorted(verdicts, key=lambda v: (not v.chosen, bool(v.row.emulates), -v.row.priority, v.row.name))
    return Explanation(cell, platform, answer, tuple(ranked))


def _reason(row: KernelRow, axis: str, platform: Platform) -> str:
    return REASONS[axis].format(
        row=row,
        lacking=_lacking(row, platform),
        scales=", ".join(row.scale_dtypes) or "none",
        constraints=", ".join(f"{c.axis}: {describe_constraint(c)}" for c in row.constraints),
    )


def _lacking(row: KernelRow, platform: Platform) -> str:
    """The instruction set as a whole where the platform lacks most of it, else the features."""
    lacking = row.requires - platform.provides
    return name_features(row.requires) if len(lacking) > 2 else ", ".join(sorted(lacking))


def describe_cell(cell: Cell) -> str:
    words = [cell.op, cell.scheme]
    if cell.scale_dtype:
        words.append(f"(scales {cell.scale_dtype})")
    if cell.activation != "auto":
        words.append(f"activations {cell.activation}")
    if cell.phase != "any":
        words.append(cell.phase)
    words += [f"{axis}={size}" for axis, size in cell.sizes]
    return " ".join(filter(None, words))


def describe_answer(answer: Choice | tuple[Refusal, ...]) -> str:
    """`layout n32k32, avx512 amx≥16`, or the refusal's sentence."""
    if not isinstance(answer, Choice):
        return "; ".join(str(refusal) for refusal in answer)
    return (f"layout {answer.layout}, " if answer.layout else "") + describe_rows(answer)


def describe_rows(choice: Choice) -> str:
    """`avx2`, or `avx512 amx≥16`: the instruction set of each interval of M."""
    named = [(low, parse_name(row.name).isa) for low, _, row in choice.rows]
    return " ".join(isa if low == 1 else f"{isa}≥{low}" for low, isa in named)
