"""What the numbers of a part are like: how small, how large, how many are zero, negative, subnormal, or at the type's end."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np

from fewbit.schemes.floats.table import largest, widen
from fewbit.spec.dtype import DType

_TINY = {"f32": 2.0**-126, "bf16": 2.0**-126, "f16": 2.0**-14, "e4m3": 2.0**-6, "e5m2": 2.0**-14}
_LARGE = {"f16": 65504.0}


@dataclass(frozen=True, slots=True)
class Range:
    """Of `count` numbers. `least` and `most` are signed; `subnormal` counts numbers other than 0 with fewer bits than the
    type has, `saturated` those of the largest magnitude that it has (of types that reach it: f16 and smaller floats)."""

    count: int = 0
    least: float = inf
    most: float = -inf
    zero: int = 0
    negative: int = 0
    subnormal: int = 0
    saturated: int = 0

    def __add__(self, other: Range) -> Range:
        return Range(
            self.count + other.count, min(self.least, other.least), max(self.most, other.most), self.zero + other.zero,
            self.negative + other.negative, self.subnormal + other.subnormal, self.saturated + other.saturated,
        )  # fmt: skip


def measure(part: Any, element: DType) -> Range:
    """`part`: a canonical array of finite numbers of that type."""
    if not part.size:
        return Range()
    numbers = widen(part.reshape(-1), element)
    sizes = np.abs(numbers)
    small = element.is_float and element.bits <= 8
    top = largest(element.name) if small else _LARGE.get(element.name, inf)
    tiny = _TINY.get(element.name, 0.0)
    return Range(
        numbers.size, float(numbers.min()), float(numbers.max()), int((numbers == 0).sum()), int((numbers < 0).sum()),
        int(((sizes < tiny) & (sizes > 0)).sum()) if tiny else 0, int((sizes >= top).sum()) if top < inf else 0,
    )  # fmt: skip
