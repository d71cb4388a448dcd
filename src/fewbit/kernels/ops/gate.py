"""What stands between the gate and the up projection of a feed-forward layer; ops/swiglu.py has the formula."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Gate:
    alpha: float = 1.0
    shift: float = 0.0
    limit: float = inf

    def numbers(self) -> dict[str, float]:
        return {"alpha": self.alpha, "shift": self.shift, "limit": self.limit}


SILU = Gate()
