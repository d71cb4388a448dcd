"""The support product: every cell that can be asked for x every platform, with its choice or refusal and its state."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from fewbit.registry.attested import Attestation
from fewbit.registry.select import select
from fewbit.registry.table import activation_bits
from fewbit.spec.cell import Cell, Choice, KernelRow, Platform, State
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
    """Ops x the schemes that any op of the kind declares x the scale types of each x activations where 8 bits are an option."""
    rows = tuple(rows)
    found = []
    for op in OPS.values():
        peers = [
            row
            for row in rows
            if (op.scheme_of and OPS[row.op].scheme_of == op.scheme_of) or row.op == op.name
        ]
        bits = {activation_bits(row.activation) for row in rows if row.op == op.name}
        for scheme in sorted({row.scheme for row in peers}, key=_scheme_order):
            scales = sorted(
                {dtype for row in peers if row.scheme == scheme for dtype in row.scale_dtypes}
            ) or [""]
            for scale in scales:
                for activation in ("auto", "8") if "8" in bits else ("auto",):
                    found.append(Cell(op.name, scheme, scale, activation))
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
            asked = Cell(cell.op, cell.scheme, cell.scale_dtype, cell.activation, backend=backend)
            answer = select(asked, platform, rows)
            state: State = "refused"
            if isinstance(answer, Choice):
                state = attestation.state_of(answer, platform.name, rows)
            entries.append(Entry(cell, platform.name, answer, state))
    return tuple(entries)
