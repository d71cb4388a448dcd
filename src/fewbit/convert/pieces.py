"""Cutting a tensor into runs of rows that take bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from math import lcm, prod

PIECE_ELEMS = 1 << 21
"""Codes of a piece. Its f32 weights take 8 MiB; packing needs a few times that."""
WORD_ROWS = 32  # rows after which any packing along N begins a new word


def step_rows(shape: tuple[int, ...], *blocks: int) -> int:
    """Rows of a piece: a multiple of 32 and of all `blocks`, at least one of them."""
    cut = lcm(WORD_ROWS, *blocks)
    return max(PIECE_ELEMS // max(prod(shape[1:]), 1) // cut, 1) * cut


def cuts(shape: tuple[int, ...], *blocks: int) -> Iterator[tuple[int, int]]:
    """(start, stop) of each piece; rows of the weight are cut at multiples of `blocks`."""
    step = step_rows(shape, *blocks)
    for start in range(0, shape[0], step):
        yield start, min(start + step, shape[0])
