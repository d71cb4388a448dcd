"""Weights laid below one another, each keeping its numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fewbit.schemes.arrays import Array
from fewbit.spec.scheme import QuantTensor, Scheme


def as_rows(tensor: QuantTensor, scheme: Scheme) -> QuantTensor:
    """The same weight in `scheme`, which is its own or what that is `stacked`: parts of the tensor repeated for each row."""
    if tensor.scheme == scheme:
        return tensor
    n, k = tensor.shape
    if tensor.scheme.stacked(k) != scheme:
        raise ValueError(f"a tensor of scheme {tensor.scheme} is no {scheme} when laid among others")
    held = {"super_scale" if role == "global_scale" else role: part for role, part in tensor.parts.items()}
    parts = {role: _spread(held[role], shape) for role, shape in scheme.part_shapes(n, k).items()}
    return QuantTensor(scheme, tensor.shape, parts)


def stack(pieces: Sequence[QuantTensor], scheme: Scheme) -> QuantTensor:
    """The rows of all pieces in turn, as one tensor of `scheme`."""
    rows = [as_rows(piece, scheme) for piece in pieces]
    if len(rows) == 1:
        return rows[0]
    parts = {role: np.concatenate([piece.parts[role] for piece in rows]) for role in rows[0].parts}
    return QuantTensor(scheme, (sum(piece.shape[0] for piece in rows), rows[0].shape[1]), parts)


def _spread(part: Array, shape: tuple[int, ...]) -> Array:
    return part if part.shape == shape else np.repeat(part.reshape(1, 1), shape[0], axis=0)
