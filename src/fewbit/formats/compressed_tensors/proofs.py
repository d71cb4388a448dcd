"""Tensors that may say nothing, read when the folder is opened: zero points of symmetric weights, the order of columns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fewbit.formats.folder.resolve import Explained, Module
from fewbit.formats.folder.safetensors import DiskTensor


def no_zero_point(module: Module, rule: str) -> Iterator[Explained]:
    zeros = module.get("weight_zero_point")
    if zeros is None:
        return
    if zeros.whole().any():
        module.fail(
            f"has zero points in {zeros} that are not 0, but {rule} says symmetric; they contradict each other"
        )
    yield Explained(zeros, "every zero point is 0")


def is_order(module: Module, index: DiskTensor, length: int, k: int) -> bool:
    """Whether columns lie in other groups than that of their position; an index of -1 everywhere was never set."""
    order, groups = index.whole(), -(-k // length)
    if (order == -1).all():
        return False
    wrong = np.flatnonzero((order < 0) | (order >= groups))
    if wrong.size:
        module.wrong(
            index, f"groups from 0 to {groups - 1}, but column {wrong[0]} is in group {order[wrong[0]]}"
        )
    return not np.array_equal(order, np.arange(k) // length)
