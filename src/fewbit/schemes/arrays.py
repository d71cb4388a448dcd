"""Which numpy array holds a part of a given element type. Sub-byte codes take one byte each."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

import numpy as np

from fewbit.spec.dtype import DType
from fewbit.spec.scheme import Scheme

Array = np.ndarray[Any, np.dtype[Any]]


@cache
def array_dtype(element: DType) -> np.dtype[Any]:
    """bf16 is held as its uint16 bit pattern, floats of 8 bits or less as uint8; i4 as int8, u6 as uint8."""
    if element.name == "bf16":
        return np.dtype(np.uint16)
    if element.is_float and element.bits <= 8:
        return np.dtype(np.uint8)
    if element.is_float:
        return np.dtype(f"f{element.bits // 8}")
    return np.dtype(f"{'i' if element.kind == 'signed' else 'u'}{max(element.bits, 8) // 8}")


def empty_parts(scheme: Scheme, n: int, k: int) -> dict[str, Array]:
    """Uninitialised canonical parts of an n x k weight."""
    types = part_types(scheme)
    return {role: np.empty(shape, types[role]) for role, shape in scheme.part_shapes(n, k).items()}


@cache
def part_types(scheme: Scheme) -> Mapping[str, np.dtype[Any]]:
    """What holds each part, by role."""
    return MappingProxyType({role: array_dtype(element) for role, element in scheme.part_dtypes().items()})


def widen_bf16(bits: Array) -> Array:
    """bf16 bit patterns (uint16) as f32, exactly."""
    wide: Array = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return wide


def round_bf16(values: Array) -> Array:
    """f32 to bf16 bit patterns, round to nearest even; a NaN stays one and becomes quiet."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quiet = (bits >> np.uint32(16)) | np.uint32(0x40)
    narrow: Array = np.where(np.isnan(values), quiet, rounded).astype(np.uint16)
    return narrow
