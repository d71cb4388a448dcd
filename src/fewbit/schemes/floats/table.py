"""What every code of a small float is worth, and the code nearest to a value."""

from __future__ import annotations

from functools import cache

import numpy as np

from fewbit.schemes.arrays import Array, round_bf16, widen_bf16
from fewbit.spec.dtype import DType

# name: exponent bits, mantissa bits, exponent bias; the codes that are NaN and infinite follow from the name
_FORMS = {
    "e4m3": (4, 3, 7), "e4m3fnuz": (4, 3, 8), "e5m2": (5, 2, 15), "e5m2fnuz": (5, 2, 16), "e2m3": (2, 3, 1), "e3m2": (3, 2, 3),
    "e2m1": (2, 1, 1),
}  # fmt: skip


@cache
def values(name: str) -> Array:
    """f32 [2^bits], read-only: the value of every code, the zeros' signs, NaN and infinities included."""
    if name == "e8m0":
        powers = np.ldexp(1.0, np.arange(256) - 127)
        powers[255] = np.nan
        table: Array = powers.astype(np.float32)
    else:
        exponent_bits, mantissa_bits, bias = _FORMS[name]
        codes = np.arange(1 << (1 + exponent_bits + mantissa_bits))
        mantissa = codes & ((1 << mantissa_bits) - 1)
        exponent = (codes >> mantissa_bits) & ((1 << exponent_bits) - 1)
        hidden = np.where(exponent > 0, 1 << mantissa_bits, 0)  # subnormals have none, and the exponent of 1
        size = np.ldexp(
            (mantissa + hidden).astype(np.float64), np.maximum(exponent, 1) - bias - mantissa_bits
        )
        table = np.where(codes >> (exponent_bits + mantissa_bits), -size, size).astype(np.float32)
        if name == "e4m3":
            table[[0x7F, 0xFF]] = np.nan
        elif name == "e5m2":
            table[[0x7C, 0xFC]] = np.inf, -np.inf
            table[[0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF]] = np.nan
        elif name.endswith("fnuz"):
            table[0x80] = np.nan
    table.flags.writeable = False
    return table


def largest(name: str) -> float:
    """The largest finite value."""
    table = values(name)
    return float(table[np.isfinite(table)].max())


def nearest(wanted: Array, name: str) -> Array:
    """uint8 codes: round to nearest, ties to the even code, beyond the largest finite value saturated; NaN needs a code for it."""
    wanted = np.asarray(wanted, np.float32)
    table = values(name)
    half = table[: len(table) if name == "e8m0" else len(table) // 2]
    half = half[np.isfinite(half)]  # ascending, code = index
    size = np.minimum(np.abs(wanted), half[-1])
    above = np.clip(np.searchsorted(half, size), 1, len(half) - 1)
    low, high = half[above - 1].astype(np.float64), half[above].astype(np.float64)
    middle = (low + high) / 2
    up = (size > middle) | ((size == middle) & (above % 2 == 0))
    code = np.where(up, above, above - 1)
    if name != "e8m0":
        negative = np.signbit(wanted)
        if name.endswith("fnuz"):
            negative &= code != 0  # the code of -0 is the NaN
        code = code | (negative.astype(code.dtype) * (len(table) // 2))
    nan = np.isnan(wanted)
    if nan.any():
        if not np.isnan(table).any():
            raise ValueError(f"{name} has no NaN, so a NaN cannot be rounded to it")
        code = np.where(nan, int(np.isnan(table).argmax()), code)
    codes: Array = code.astype(np.uint8)
    return codes


def widen(part: Array, element: DType) -> Array:
    """A canonical part as the f32 numbers that it means (f64 is rounded)."""
    if element.name == "bf16":
        return widen_bf16(part)
    if element.is_float and element.bits <= 8:
        small: Array = values(element.name)[part]
        return small
    wide: Array = part.astype(np.float32)
    return wide


def narrow(numbers: Array, element: DType) -> Array:
    """f32 numbers as a part of a float type, rounded to nearest even."""
    if element.name == "bf16":
        return round_bf16(numbers)
    if element.bits <= 8:
        return nearest(numbers, element.name)
    with np.errstate(over="ignore"):
        stored: Array = numbers.astype(f"f{element.bits // 8}")
    return stored
