"""How far a kernel may be from the exact product y[m,n] = sum over k of x[m,k] * w[n,k], and why.

Three roundings make the error; u = 2^-24 is the unit roundoff of f32, S = sum over k of |x||w|, R = sqrt(sum over k of x^2 w^2).

    accumulation   a chain of K fused multiply-adds in f32          |error| <= K u / (1 - K u) * S
                   (any order of summation has a chain no longer than K, so the bound holds for every kernel)
    bf16 rows      x is rounded to bf16, whose 8 bits make a relative error of at most 2^-8 (half a step, at a power of two):
                   |error| <= 2^-8 S, and products are exact in f32. The roundings are of mean zero and uniform within half a
                   step, so rms <= 2^-8 / sqrt(3) * R
    bf16w rows     w is rounded as well: |error| <= (2^-7 + 2^-16) S, rms <= sqrt(2/3) * 2^-8 * R. A row with few values (codes of
                   4 bits times few scales) rounds each alike everywhere, and up to sqrt(4/3) * 2^-8 * R: within the slack
    i8g32 rows     x is rounded to 127 steps of s = max|x| over its group of 32: |x - x'| <= s/254, so
                   |error| <= sum over k of s_k/254 |w|,  rms <= sqrt(sum over k of (s_k/127)^2 w^2 / 12).
                   Products and the sum over a group are whole numbers and exact; f32 adds up K/32 groups.
    i8token rows   the same with one s for the whole row

w is the weight that the scheme's reference gives, so quantization error of the weight is no part of it. A plain float scheme that is
exact in bf16 loses nothing by rounding to it; the bound need not know. A test checks `worst` on every element and `rms` on the
root mean square over many: a wrong nibble order passes neither.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fewbit.schemes.arrays import Array

UNIT = 2.0**-24
GROUP = 32
RMS_SLACK = 1.5  # the rms is a mean over samples of a distribution with tails


@dataclass(frozen=True, slots=True)
class Tolerance:
    """f64 [M, N]: no element's error may exceed `worst`; over all elements, rms(error) may not exceed rms(`rms`)."""

    worst: Array
    rms: Array

    def check(self, y: Array, exact: Array) -> str:
        """Empty when y is within tolerance, else one sentence that names the first element outside, or the rms."""
        error = np.abs(y.astype(np.float64) - exact)
        outside = ~(error <= self.worst)  # a NaN is outside
        if outside.any():
            m, n = (int(i) for i in np.argwhere(outside)[0])
            return f"y[{m},{n}] = {y[m, n]}, expected {exact[m, n]} within {self.worst[m, n]:.3g}"
        found, allowed = np.sqrt((error**2).mean()), RMS_SLACK * np.sqrt((self.rms**2).mean())
        return "" if found <= allowed else f"rms error {found:.3g}, expected at most {allowed:.3g}"


def linear_tolerance(x: Array, weight: Array, activation: str, terms: Array | None = None) -> Tolerance:
    """x f32 [M, K]; weight f32 [N, K], dequantized; activation: f32, bf16, bf16w, i8g32 or i8token.

    terms: |code * scale| + |offset| [N, K] for kernels that sum codes and offsets apart, whose sums do not cancel early.
    """
    size, magnitude = np.abs(x.astype(np.float64)), np.abs(weight.astype(np.float64))
    k = x.shape[1]
    total = size @ magnitude.T
    squares = np.sqrt((size**2) @ (magnitude**2).T)
    summed = total if terms is None else size @ np.abs(terms.astype(np.float64)).T
    chain = (
        (k + 4) * UNIT / (1 - (k + 4) * UNIT) * (1 + 2.0**-7)
    )  # 4: roundings of scales; 2^-7: x is rounded already
    worst, rms = chain * summed, np.sqrt(k) * UNIT * summed
    match activation:
        case "f32":
            return Tolerance(worst, rms)
        case "bf16":
            return Tolerance(worst + 2.0**-8 * total, rms + np.sqrt(1 / 3) * 2.0**-8 * squares)
        case "bf16w":
            return Tolerance(worst + (2.0**-7 + 2.0**-16) * total, rms + np.sqrt(2 / 3) * 2.0**-8 * squares)
        case "i8g32" | "i8token":
            step = _group_steps(size, GROUP if activation == "i8g32" else k)
            step = step * (1 + 2.0**-16)  # the division by the step rounds in f32, up to 127 units of it
            return Tolerance(
                worst + (step / 2) @ magnitude.T, rms + np.sqrt((step**2 / 12) @ (magnitude**2).T)
            )
    raise ValueError(f"no tolerance for activation {activation!r}; known: f32, bf16, bf16w, i8g32, i8token")


def _group_steps(size: Array, group: int) -> Array:
    """Step of each element's group, f64 [M, K]; a partial last group counts as one."""
    m, k = size.shape
    groups = np.pad(size, ((0, 0), (0, -k % group))).reshape(m, -1, group)
    steps: Array = np.repeat(groups.max(axis=2) / 127, group, axis=1)[:, :k]
    return steps
