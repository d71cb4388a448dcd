"""Buffers whose handle is a numpy byte array: the storage of the reference and cpu backends."""

from __future__ import annotations

import math

import numpy as np

from fewbit.schemes.arrays import array_dtype
from fewbit.spec.buffer import Buffer
from fewbit.spec.dtype import DType


def byte_count(shape: tuple[int, ...], dtype: DType) -> int:
    return math.prod(shape) * (dtype.bits // 8)


def wrap(memory: np.ndarray, shape: tuple[int, ...], dtype: DType) -> Buffer:
    """A contiguous buffer over the bytes of `memory`."""
    strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return Buffer(dtype, shape, strides, memory)


def view(buffer: Buffer) -> np.ndarray:
    """The buffer as an array that shares its memory."""
    dtype = array_dtype(buffer.dtype)
    strides = [stride * dtype.itemsize for stride in buffer.strides]
    return np.ndarray(buffer.shape, dtype, buffer.handle, buffer.offset * dtype.itemsize, strides)


def address(buffer: Buffer) -> int:
    """Of the first element, as a number for a C struct."""
    return int(buffer.handle.ctypes.data) + buffer.offset * (buffer.dtype.bits // 8)
