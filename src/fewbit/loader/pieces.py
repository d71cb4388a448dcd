"""How weights are cut for loading: rows of a packed block that one thread decodes and packs at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import lcm

from fewbit.layers.method import Block
from fewbit.layers.spec import TensorSpec

PANEL_ROWS = 32
MOST_BYTES = 4 << 20
ALL_BYTES, PACKED_SHARE = 16 << 20, 80
"""Decoded codes in all threads together: these bytes, and an 80th of the packed weights. With what they are decoded from, three times
that is in memory, at most four: 64 MiB and a 20th of the packed weights."""
MOST_THREADS = 8
"""More threads spend their time waiting for one another: each piece holds Python's lock for a quarter of a millisecond, in a dozen
turns. On 16 threads of Emerald Rapids GPTQ of 4 bits loads at 2.3 GB/s with 8, at 1.0 with 16, at 1.8 with 4."""


def piece_bytes(threads: int, packed_bytes: int) -> int:
    """Decoded codes of one piece, where that many threads load weights of so many bytes once packed."""
    return min(MOST_BYTES, (ALL_BYTES + packed_bytes // PACKED_SHARE) // threads)


@dataclass(frozen=True, slots=True)
class Piece:
    """Rows from `row` on of a block: of one tensor, or of several where a tensor does not end with a panel."""

    block: Block
    row: int
    rows: tuple[tuple[TensorSpec, int, int], ...]

    @property
    def names(self) -> str:
        return ", ".join(tensor.name for tensor, _, _ in self.rows)


def cut(block: Block, most_bytes: int) -> Iterator[Piece]:
    """Pieces of at most so many bytes of codes, but a panel at least. They begin at panels, and at the ends of tensors where these are ends of panels."""
    unit = lcm(PANEL_ROWS, block.scheme.block_n)
    row_bytes = max(block.k * max(block.scheme.codes.bits, 8) // 8, 1)
    step = max(most_bytes // row_bytes // unit, 1) * unit
    ends = _ends(block)
    start = 0
    while start < block.n:
        stop = min(
            start + step, *(end for end in ends if end > start and (end % unit == 0 or end == block.n))
        )
        yield Piece(block, start, tuple(_rows(block.weights, start, stop)))
        start = stop


def _ends(block: Block) -> list[int]:
    ends, at = [], 0
    for weight in block.weights:
        at += weight.shape[0]
        ends.append(at)
    return ends


def _rows(weights: tuple[TensorSpec, ...], start: int, stop: int) -> Iterator[tuple[TensorSpec, int, int]]:
    """Rows [start, stop) of the weights laid below one another, as (tensor, its own start, its own stop)."""
    base = 0
    for weight in weights:
        low, high = max(start - base, 0), min(stop - base, weight.shape[0])
        if low < high:
            yield weight, low, high
        base += weight.shape[0]
