"""Extremes of a weight over the elements that share a scale, in the shape of the scale part."""

from __future__ import annotations

import numpy as np

from fewbit.schemes.arrays import Array
from fewbit.spec.granularity import Granularity


def extremes(weight: Array, granularity: Granularity) -> tuple[Array, Array]:
    """Least and largest; a partial last group or block counts its own elements only."""
    return _reduce(weight, granularity, np.minimum), _reduce(weight, granularity, np.maximum)


def peaks(weight: Array, granularity: Granularity) -> Array:
    """Largest magnitude."""
    low, high = extremes(weight, granularity)
    largest: Array = np.maximum(np.abs(low), np.abs(high))
    return largest


def _reduce(weight: Array, granularity: Granularity, ufunc: np.ufunc) -> Array:
    n, k = weight.shape
    match granularity.sharing:
        case "tensor":
            out: Array = ufunc.reduce(weight, axis=None).reshape(1)
        case "channel" | "token":
            out = ufunc.reduce(weight, axis=1, keepdims=True)
        case "group":
            out = ufunc.reduceat(weight, np.arange(0, k, granularity.k), axis=1)
        case "block":
            rows = ufunc.reduceat(weight, np.arange(0, n, granularity.n), axis=0)
            out = ufunc.reduceat(rows, np.arange(0, k, granularity.k), axis=1)
        case other:
            raise ValueError(f"granularity {other!r} has no granules")
    return out
