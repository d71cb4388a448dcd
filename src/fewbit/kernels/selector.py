"""Kernel selection with a memory: the registry is asked once per cell, and a refusal is raised with its subject."""

from __future__ import annotations

from dataclasses import replace

from fewbit.registry.select import select
from fewbit.spec.cell import Cell, Choice, Phase, Platform
from fewbit.spec.refusal import Refusal, RefusedError


class Selector:
    """`backend` is "auto" (the platform's own) or "reference", for every cell that does not say otherwise."""

    def __init__(self, platform: Platform, backend: str = "auto") -> None:
        self.platform, self.backend = platform, backend
        self._answers: dict[Cell, Choice | tuple[Refusal, ...]] = {}

    def ask(self, cell: Cell) -> Choice | tuple[Refusal, ...]:
        if cell.backend == "auto":
            cell = replace(cell, backend=self.backend)
        if cell not in self._answers:
            self._answers[cell] = select(cell, self.platform)
        return self._answers[cell]

    def choose(
        self,
        op: str,
        scheme: str = "",
        sizes: tuple[tuple[str, int], ...] = (),
        layout: str = "",
        phase: Phase = "any",
    ) -> Choice:
        answer = self.ask(Cell(op, scheme, sizes=sizes, layout=layout, phase=phase))
        if not isinstance(answer, Choice):
            raise RefusedError(f"{op} {scheme}".rstrip(), answer)
        return answer
