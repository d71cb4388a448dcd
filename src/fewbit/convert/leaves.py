"""The stored tensors of a weight, foreseen before it is read: their shapes, and along which axis rows of the weight lie in them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from fewbit.convert.pieces import cuts, step_rows
from fewbit.convert.target import Said
from fewbit.schemes.arrays import array_dtype
from fewbit.schemes.floats.table import narrow
from fewbit.spec.scheme import QuantTensor, Scheme


@dataclass(frozen=True, slots=True)
class Leaf:
    """`axis` along which the rows of the weight follow one another, None where every piece gives the whole."""

    kind: str
    shape: tuple[int, ...]
    axis: int | None


def leaves_of(said: Said, scheme: Scheme, shape: tuple[int, int]) -> dict[str, Leaf]:
    """By encoding blank pieces: one and two of the least rows show the axis, the true pieces the length along it."""
    n, k = shape
    step = step_rows((n, k), scheme.block_n)
    cut = step_rows((1, 1 << 40), scheme.block_n)
    one, two = (_shapes(said, scheme, cut * times, k) for times in (1, 2))
    sizes = [stop - start for start, stop in cuts((n, k), scheme.block_n)]
    found: dict[str, Leaf] = {}
    for leaf, (kind, least) in one.items():
        grown = [a for a, (x, y) in enumerate(zip(least, two[leaf][1])) if x != y]
        axis = grown[0] if grown else None
        whole = list(least)
        if axis is not None:
            lengths = {
                rows: _shapes(said, scheme, rows, k)[leaf][1][axis] for rows in {step, sizes[-1]} if rows <= n
            }
            whole[axis] = sum(lengths[rows] for rows in sizes)
        found[leaf] = Leaf(kind, tuple(whole), axis)
    return found


@lru_cache(maxsize=256)
def _shapes(said: Said, scheme: Scheme, n: int, k: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    made = said.leaves(blank(scheme, n, k))
    return {leaf: (stored.kind, stored.array.shape) for leaf, stored in made.items()}


def blank(scheme: Scheme, n: int, k: int) -> QuantTensor:
    """Codes of 0 with scales of 1."""
    types = scheme.part_dtypes()
    parts = {}
    for role, shape in scheme.part_shapes(n, k).items():
        element = types[role]
        if role in ("scale", "global_scale", "super_scale") and element.is_float:
            parts[role] = narrow(np.ones(shape, np.float32), element)
        else:
            parts[role] = np.zeros(shape, array_dtype(element))
    return QuantTensor(scheme, (n, k), parts)
