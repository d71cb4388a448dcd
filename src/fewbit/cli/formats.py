"""`fewbit support --formats`: format x scheme x how its reading was verified, and where a kernel runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from rich.text import Text

from fewbit.cli.output import console, facts, marked, print_json, table
from fewbit.formats.evidence import Evidence, How, read_evidence
from fewbit.formats.quantization import names
from fewbit.formats.registry import FORMATS, NARROW_NAMES
from fewbit.registry.attested import Attestation, read_attestation
from fewbit.registry.explain import describe_rows
from fewbit.registry.select import select
from fewbit.registry.table import load_rows
from fewbit.spec.cell import Cell, Choice, Platform
from fewbit.spec.refusal import Refusal

MEANINGS: dict[How, str] = {
    "bit-equal": "a tool of the format wrote so many checkpoints, and every weight has the bits that the tool gives",
    "rounding": "the same, but for a rounding in the tool's own arithmetic, which is bounded",
    "round trip": "no tool's file is at hand: what is written by the published contract is read again bit by bit",
}


@dataclass(frozen=True, slots=True)
class Line:
    """A scheme of a format, and for each platform the kernels of its linear layers or the refusal, with the state.

    `verified` counts the checkpoints of a tool that hold the scheme.
    """

    evidence: Evidence
    answers: tuple[tuple[Choice | tuple[Refusal, ...], str], ...]

    @property
    def verified(self) -> str:
        count = self.evidence.checkpoints
        return f"{self.evidence.how} ×{count}" if count else self.evidence.how


def lines(platforms: Sequence[Platform]) -> list[Line]:
    attestation = read_attestation()
    return [
        Line(evidence, tuple(_answer(evidence, platform, attestation) for platform in platforms))
        for evidence in read_evidence()
    ]


def _answer(
    evidence: Evidence, platform: Platform, attestation: Attestation
) -> tuple[Choice | tuple[Refusal, ...], str]:
    answer = select(Cell("linear", evidence.scheme, evidence.scale), platform)
    if not isinstance(answer, Choice):
        return answer, "refused"
    return answer, attestation.state_of(answer, platform.name, load_rows())


def show_formats(platforms: Sequence[Platform]) -> None:
    out, rows, form = console(), list[list[str | Text] | None](), ""
    for line in lines(platforms):
        e = line.evidence
        if form not in ("", e.format):
            rows.append(None)
        cells = [_cell(answer, state, len(platforms) == 1) for answer, state in line.answers]
        rows.append([e.format if e.format != form else "", e.scheme, e.scale, line.verified, *cells])
        form = e.format
    heads = [platform.name if len(platforms) == 1 else _short(platform.name) for platform in platforms]
    out.print(table(["format", "scheme", "scales", "verified", *heads], rows))
    out.print()
    out.print(facts((how, meaning) for how, meaning in MEANINGS.items()))
    out.print(facts([(marked("refused"), "no kernel of that platform: --allow-reference runs it, slowly")]))
    narrower = ", ".join(f"{name} ({narrow.format})" for name, narrow in NARROW_NAMES.items())
    out.print(facts([("--quantization", f"{', '.join(FORMATS)}; also {narrower}")]))


def _short(platform: str) -> str:
    return platform if platform == "x86_64" else platform.removeprefix("x86_")


def _cell(answer: Choice | tuple[Refusal, ...], state: str, alone: bool) -> Text:
    """With all platforms side by side the mark alone."""
    return marked(state, describe_rows(answer) if alone and isinstance(answer, Choice) else "")


def print_formats(platforms: Sequence[Platform]) -> None:
    told = [
        asdict(line.evidence)
        | {
            "platforms": {
                platform.name: {
                    "state": state,
                    "kernels": describe_rows(answer) if isinstance(answer, Choice) else None,
                }
                for platform, (answer, state) in zip(platforms, line.answers, strict=True)
            }
        }
        for line in lines(platforms)
    ]
    print_json({"formats": told, "quantization": list(names())})
