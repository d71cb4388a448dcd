"""Kernel selection with a memory: the registry is asked once per cell, and a refusal is raised with its subject."""

from __future__ import annotations

from fewbit.registry.select import select
from fewbit.spec.cell import Cell, Choice, Platform
from fewbit.spec.refusal import RefusedError


class Selector:
    """`backend` is "auto" (the platform's own) or "reference", for every cell that does not say otherwise."""

    def __init__(self, platform: Platform, backend: str = "auto") -> None:
        self.platform, self.backend = platform, backend
        self._choices: dict[Cell, Choice] = {}

    def choose(self, op: str, scheme: str = "", sizes: tuple[tuple[str, int], ...] = (), layout: str = "") -> Choice:
        cell = Cell(op, scheme, sizes=sizes, backend=self.backend, layout=layout)
        if cell not in self._choices:
            answer = select(cell, self.platform)
            if not isinstance(answer, Choice):
                raise RefusedError(f"{op} {scheme}".rstrip(), answer)
            self._choices[cell] = answer
        return self._choices[cell]
