"""How a linear's activations become 8-bit codes, one scale for each row; the definition of what linear_i8token/quantize.h does."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

NONE, DYNAMIC, ASYMMETRIC, FIXED = range(4)
TINY = np.float32(2.0**-100)  # a row whose largest lies below counts as zeros


@dataclass(frozen=True, slots=True)
class InputCodes:
    """`scale` and `zero` of FIXED; of DYNAMIC, `scale` is how many steps the largest magnitude has."""

    kind: int = NONE
    scale: float = 0.0
    zero: int = 0

    def numbers(self) -> dict[str, float | int]:
        """As the op takes them."""
        return {"input_kind": self.kind, "input_scale": self.scale, "input_zero": self.zero}


UNSAID = InputCodes()
"""Of a layer that declares nothing."""


def quantize_rows(
    x: np.ndarray, kind: int, scale: float, zero: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x f32 [m, k] -> (codes i8 [m, k], scale f32 [m], zero i32 [m]); a row with an infinity or NaN has scale NaN."""
    f32 = np.float32
    odd = ~np.isfinite(x).all(axis=1)
    x = np.where(odd[:, None], f32(0), x)
    most, least = np.maximum(x.max(axis=1), f32(0)), np.maximum(-x.min(axis=1), f32(0))
    zeros = np.zeros(len(x), np.int32)
    if kind == FIXED:
        scales, zeros = np.full(len(x), scale, f32), np.full(len(x), zero, np.int32)
    elif kind == ASYMMETRIC:
        with np.errstate(over="ignore"):
            width = most + least
        odd |= ~np.isfinite(width)
        scales = np.where(width >= TINY, width / f32(255), f32(0))
        moved = f32(-128) + least / np.where(scales > 0, scales, f32(1))
        zeros = np.where(scales > 0, np.rint(np.minimum(moved, f32(127))), 0).astype(np.int32)
    else:
        largest = np.maximum(most, least)
        scales = np.where(largest >= TINY, largest / f32(scale or 127), f32(0))
    scales = np.where(odd, f32(np.nan), scales).astype(f32)
    steps = np.where(scales > 0, scales, f32(1))[:, None]
    codes = np.rint(np.clip(x / steps + zeros.astype(f32)[:, None], -128, 127))
    return np.where((scales > 0)[:, None], codes, 0).astype(np.int8), scales, zeros


def rounded(x: np.ndarray, kind: int, scale: float, zero: int) -> np.ndarray:
    """x as its codes give it back, f32."""
    codes, scales, zeros = quantize_rows(x, kind, scale, zero)
    whole = np.where((scales > 0)[:, None], codes.astype(np.int32) - zeros[:, None], 0)
    return whole.astype(np.float32) * scales[:, None]
