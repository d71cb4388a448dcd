"""A text's tokens, cut into windows that are read from scratch, each in blocks of a bounded number of rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

BLOCK_ROWS = 64  # logits held at once: 64 rows of a 150,000-word vocabulary are 40 MB in f32


@dataclass(frozen=True, slots=True)
class Window:
    """`tokens[i]` for i >= 1 is scored by what stands before it in the window."""

    tokens: tuple[int, ...]

    @property
    def scored(self) -> int:
        return len(self.tokens) - 1

    def blocks(self, rows: int = BLOCK_ROWS) -> Iterator[tuple[int, int]]:
        """Row ranges [start, stop) that together cover every row that predicts a token."""
        for start in range(0, self.scored, rows):
            yield start, min(start + rows, self.scored)


def windows(ids: Sequence[int], chunk: int, bos: int | None = None) -> Iterator[Window]:
    """Consecutive windows of `chunk` tokens, the last one shorter; each opens with `bos` where the model wants one."""
    head = () if bos is None else (bos,)
    size = chunk - len(head)
    if size < 1 or chunk < 2:
        raise ValueError(f"a window of {chunk} tokens scores nothing; it needs at least 2")
    for start in range(0, len(ids), size):
        window = Window((*head, *ids[start : start + size]))
        if window.scored > 0:
            yield window
