"""A plan is a step of a model written down: ops with their kernels and fixed buffers, to be run any number of times."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fewbit.spec.cell import M_MAX, KernelRow


@dataclass(frozen=True, slots=True)
class Step:
    """One op. `args` are those of its contract (Buffer, PackedTensor, int, float or None), `sizes` the contract's symbols.

    `overlap`: independent of the next step, so that no barrier is needed between the two.
    """

    op: str
    row: KernelRow
    args: Mapping[str, Any]
    sizes: Mapping[str, int]
    overlap: bool = False

    def __str__(self) -> str:
        return f"{self.row.name} {', '.join(f'{name}={size}' for name, size in self.sizes.items())}"


@dataclass(frozen=True, slots=True)
class Plan:
    """`m_range`: the rows of activations for which the recorded kernels are the chosen ones."""

    steps: tuple[Step, ...]
    m_range: tuple[int, int] = field(default=(1, M_MAX))

    def __str__(self) -> str:
        return "\n".join(str(step) for step in self.steps)
