"""Random numbers of the sampler: a hash of (seed, position), so that batch, chunking and preemption can't change them.

splitmix64: the counter is spread by the golden ratio and mixed. Seeds are mixed before use, as otherwise the streams of
seed s and s + golden ratio would be one stream, shifted.
"""

from __future__ import annotations

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
FEW = 8

_GOLDEN = np.uint64(GOLDEN)
_M1, _M2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S40 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(40)
_STEP = np.float32(2.0**-24)


def mix64(value: int) -> int:
    """The finalizer of splitmix64, a bijection of 64-bit numbers."""
    value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    value = (value ^ (value >> 27)) * 0x94D049BB133111EB & MASK
    return value ^ (value >> 31)


def stream(seed: int) -> int:
    """Start of the number stream of a seed."""
    return mix64((seed + GOLDEN) & MASK)


def choice_seed(seed: int, choice: int) -> int:
    """Seed of the choice of that number in a request with n > 1; choice 0 is the seed itself."""
    return seed if choice == 0 else mix64(seed ^ mix64(choice))


def uniforms(streams: np.ndarray, positions: list[int]) -> np.ndarray:
    """f32[L] in [0, 1), a multiple of 2^-24, for streams u64[L] at L positions."""
    if len(positions) <= FEW:  # plain integers are quicker than a dozen array operations
        mixed = [
            mix64((s + (p + 1) * GOLDEN) & MASK) >> 40
            for s, p in zip(streams.tolist(), positions, strict=True)
        ]
        return np.array(mixed, np.float32) * _STEP
    z = streams + (np.array(positions, np.uint64) + np.uint64(1)) * _GOLDEN
    z = (z ^ (z >> _S30)) * _M1
    z = (z ^ (z >> _S27)) * _M2
    z = z ^ (z >> _S31)
    unit: np.ndarray = (z >> _S40).astype(np.float32) * _STEP
    return unit
