"""The support product: every cell that can be asked for x every platform, with its choice or refusal and its state."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass, replace

from fewbit.registry.attested import Attestation
from fewbit.registry.select import select
from fewbit.registry.table import activation_bits
from fewbit.spec.cell import ANY_SCHEME, Cell, Choice, KernelRow, Phase, Platform, State
from fewbit.spec.op import OPS
from fewbit.spec.refusal import Refusal

Answer = Choice | tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Entry:
    cell: Cell
    platform: str
    answer: Answer
    state: State


def cells(rows: Iterable[KernelRow]) -> tuple[Cell, ...]:
    """Ops x the schemes that any op of the kind declares x the scale types of each x what else the op's rows tell apart:
    phases, and activations where 8 bits are an option or a checkpoint may declare them.
    """
    rows = tuple(rows)
    found = []
    for op in OPS.values():
        mine = [row for row in rows if row.op == op.name]
        peers = [row for row in rows if op.scheme_of and OPS[row.op].scheme_of == op.scheme_of] or mine
        phases: tuple[Phase, ...] = ("any",)
        if any(row.phase != "any" for row in mine):
            phases = ("prefill", "decode")
        bits = ("auto", "8") if any(activation_bits(row.activation) == "8" for row in mine) else ("auto",)
        declared = {
            (row.scheme, scale): row.activation
            for row in mine
            if row.activation and activation_bits(row.activation) == row.activation
            for scale in row.scale_dtypes
        }
        for scheme in sorted({row.scheme for row in peers} - {ANY_SCHEME}, key=_scheme_order):
            scales = {dtype for row in peers if row.scheme == scheme for dtype in row.scale_dtypes} or {""}
            for scale in sorted(scales):
                named = declared.get((scheme, scale))
                for activation, phase in itertools.product((*bits, named) if named else bits, phases):
                    found.append(Cell(op.name, scheme, scale, activation, phase))
    return tuple(found)


def _scheme_order(scheme: str) -> tuple[bool, bool, str]:
    """Plain floats, then one-level, then two-level schemes."""
    return "g" in scheme, scheme.endswith("t"), scheme


def matrix(
    rows: Iterable[KernelRow], platforms: Iterable[Platform], attestation: Attestation, backend: str = "auto"
) -> tuple[Entry, ...]:
    rows = tuple(rows)
    entries = []
    for cell in cells(rows):
        for platform in platforms:
            answer = select(replace(cell, backend=backend), platform, rows)
            state: State = "refused"
            if isinstance(answer, Choice):
                state = attestation.state_of(answer, platform.name, rows)
            entries.append(Entry(cell, platform.name, answer, state))
    return tuple(entries)
