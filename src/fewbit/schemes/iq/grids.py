"""The grids, which are public constants of llama.cpp, read from one packed file.

Each run of `grids.bin` holds a grid's entries in order, lowest bits first: 2 bits for grids of three values, 4 for those of eight.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np

from fewbit.schemes.arrays import Array

_TERNARY, _IQ2, _IQ3_XXS, _IQ3_S = (
    (-1, 0, 1), (8, 25, 43), (4, 12, 20, 28, 36, 44, 52, 62), (1, 3, 5, 7, 9, 11, 13, 15)
)  # fmt: skip
# in the file's order: rows, length, values
_GRIDS: dict[str, tuple[int, int, tuple[int, ...]]] = {
    "iq1": (2048, 8, _TERNARY),
    "iq2_xxs": (256, 8, _IQ2),
    "iq2_xs": (512, 8, _IQ2),
    "iq2_s": (1024, 8, _IQ2),
    "iq3_xxs": (256, 4, _IQ3_XXS),
    "iq3_s": (512, 4, _IQ3_S),
}


@cache
def grid(name: str) -> Array:
    """f32 [rows, length], read-only."""
    raw, start = np.fromfile(Path(__file__).with_name("grids.bin"), np.uint8), 0
    for other, (rows, length, values) in _GRIDS.items():
        bits = 2 if len(values) == 3 else 4
        count = rows * length * bits // 8
        if other == name:
            packed = raw[start : start + count, None] >> np.arange(0, 8, bits, dtype=np.uint8)
            table: Array = np.array(values, np.float32)[packed & ((1 << bits) - 1)].reshape(rows, length)
            table.flags.writeable = False
            return table
        start += count
    raise ValueError(f"no grid {name!r}; known: {', '.join(_GRIDS)}")
