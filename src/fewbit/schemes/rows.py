"""Rows of a tensor as a tensor of their own."""

from __future__ import annotations

from fewbit.spec.scheme import QuantTensor


def rows_of(tensor: QuantTensor, start: int, stop: int) -> QuantTensor:
    """Rows [start, stop), without a copy; `start` is a multiple of the scheme's `block_n`. Parts of all rows stay whole."""
    n = tensor.shape[0]
    shape = (stop - start, *tensor.shape[1:])
    wanted = tensor.scheme.part_shapes(*shape) if len(shape) == 2 else {"codes": shape}
    parts = {}
    for role, part in tensor.parts.items():
        if part.shape != wanted[role]:
            height = 1 if part.shape[0] == n else tensor.scheme.block_n
            part = part[start // height : -(-stop // height)]
        parts[role] = part
    return QuantTensor(tensor.scheme, shape, parts)
