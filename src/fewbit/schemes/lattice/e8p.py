"""QuIP#'s codebooks, of points of E8 in runs of 8 weights.

E8P: a code is (magnitude << 8 | signs). Magnitudes are the 227 patterns of |x| with half-odd entries and |x|^2 <= 10, in
lexicographic order, then 29 of the 56 of |x|^2 = 12 with five entries 3/2. The signs make the sum of the point even: they are
read with the last entry negated where the pattern's sum is odd, and with an even number of flips. An odd number of set bits
means the one of entry 0 is to be turned back and 1/4 is taken from all entries; an even one, that 1/4 is added.

The short one, for residuals: the 241 points of E8 with |x|^2 <= 2, integers before halves, then 15 of those with one entry 2.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np

from fewbit.schemes.arrays import Array

E8P_BITS = 16
SIGN_BIT = (0, 4, 1, 5, 2, 6, 3, 7)  # of each entry of the run
HALVES = (
    "123", "023", "013", "012", "367", "357", "347", "356", "346", "345", "267", "257", "247", "256", "246", "245", "167", "157",
    "147", "156", "146", "045", "067", "057", "047", "056", "046", "014", "237",
)  # fmt: skip
"""Where the entries 1/2 are, in the patterns of |x|^2 = 12."""


@cache
def magnitudes() -> Array:
    """f32 [256, 8]."""
    near = [p for p in product((0.5, 1.5, 2.5), repeat=8) if sum(x * x for x in p) <= 10]
    far = [[0.5 if str(i) in places else 1.5 for i in range(8)] for places in HALVES]
    return np.array(near + far, np.float32)


def parity(bits: Array) -> Array:
    """bool: is the number of set bits of each byte odd?"""
    odd: Array = np.bitwise_count(bits.astype(np.uint8)) % 2 == 1
    return odd


@cache
def e8p() -> Array:
    """f32 [65536, 8], read only."""
    points = magnitudes().copy()
    points[:, 7] *= 1 - 2 * (points.sum(axis=1) % 2)
    signs = np.arange(256, dtype=np.uint8)
    odd = parity(signs)
    flips = (signs ^ odd)[:, None] >> np.array(SIGN_BIT, np.uint8) & 1
    signed = points[:, None] * (1 - 2 * flips.astype(np.float32)) + np.where(odd, -0.25, 0.25)[:, None]
    return _kept(signed.reshape(-1, 8))


@cache
def short() -> Array:
    """f32 [256, 8], read only."""
    whole = [p for p in product((-1, 0, 1), repeat=8) if sum(p) % 2 == 0 and sum(x * x for x in p) <= 2]
    half = [p for p in product((-0.5, 0.5), repeat=8) if sum(p) % 2 == 0]
    axes = 2 * np.concatenate([np.eye(8), -np.eye(8)[:7]])
    return _kept(np.concatenate([whole, half, axes]))


def _kept(points: Array) -> Array:
    table: Array = points.astype(np.float32)
    table.setflags(write=False)
    return table
