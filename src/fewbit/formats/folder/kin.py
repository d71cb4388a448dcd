"""Modules that one rule quantizes hold the same leaves: a scale that one of them lacks was lost, though it may be optional."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fewbit.formats.folder.resolve import Module

OTHER = frozenset({
    "k_scale", "v_scale", "output_scale",  # of the projections whose results are cached
    "weight_scale", "weight_scale_inv",  # two spellings of what every resolver needs
})  # fmt: skip
FOLDED = frozenset({"pre_quant_scale"})  # a producer folds it into what comes before, where something does
_NUMBER = re.compile(r"\.\d+(?=\.)")


class Kin:
    """Takes quantized modules one by one; `check` then names the first that lacks what its like have.

    Leaves in FOLDED are compared only between modules that differ by the number of their layer or expert.
    """

    def __init__(self, signs: frozenset[str]) -> None:
        self._signs = signs - OTHER
        self._of: dict[tuple[str, str], dict[frozenset[str], Module]] = {}

    def add(self, module: Module, rule: str) -> None:
        mine = self._signs.intersection(module.leaves)
        stacked = "stacked" if module.stack else ""  # a stack has leaves of its own
        self._of.setdefault((rule, stacked), {}).setdefault(mine - FOLDED, module)
        if FOLDED & self._signs:
            place = _NUMBER.sub(".*", module.name)
            self._of.setdefault((rule, place), {}).setdefault(mine & FOLDED, module)

    def check(self) -> None:
        for (rule, _), first in self._of.items():
            every = frozenset[str]().union(*first)
            for mine, module in first.items():
                for leaf in sorted(every - mine):
                    other = next(m for theirs, m in first.items() if leaf in theirs)
                    module.fail(
                        f"has no tensor {leaf!r}, but {other.name!r}, which {rule} quantizes too, has its own; the checkpoint "
                        "is incomplete"
                    )
