"""Reads a text with one or several models in step, beside a reference, and sums what their logits say.

Memory is bounded: all models read the same few rows, which are compared and dropped before the next are read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

import numpy as np

from fewbit.evaluate.divergence import Tally, log_softmax
from fewbit.evaluate.windows import Window


class Reader(Protocol):
    def logits(self, window: Window, start: int, stop: int) -> np.ndarray: ...


def measure(
    subjects: Mapping[str, Reader],
    reference: Reader | None,
    windows: Iterable[Window],
    progress: Callable[[int], None] = lambda tokens: None,
) -> dict[str, Tally]:
    """One tally for each subject, by its name. `progress` is told of tokens as they are scored."""
    tallies = {name: Tally() for name in subjects}
    for window in windows:
        targets = np.array(window.tokens[1:], np.int64)
        for start, stop in window.blocks():
            expected = None if reference is None else log_softmax(reference.logits(window, start, stop))
            for name, subject in subjects.items():
                found = log_softmax(subject.logits(window, start, stop))
                tallies[name].add(found, targets[start:stop], expected)
            progress(stop - start)
    return tallies
