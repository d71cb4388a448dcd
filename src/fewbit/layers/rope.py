"""Rotary positions: inverse frequencies and attention scaling of each rope type, as transformers computes them.

Powers are evaluated in double and rounded to f32 once, which differs from transformers' f32 by at most one unit in the last place.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fewbit.spec.refusal import CheckpointError

KEYS = {
    "default": (),
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
    "yarn": ("factor", "original_max_position_embeddings"),
}
"""Rope types that are served, with the keys each must have."""

OPTIONAL = {
    "yarn": ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
    "default": ("factor", "original_max_position_embeddings"),  # written by some producers, without effect
    "linear": ("original_max_position_embeddings",),
}
COMMON = ("rope_type", "type", "rope_theta", "partial_rotary_factor")


@dataclass(frozen=True, slots=True)
class Rope:
    """`scaling` is Hugging Face's rope_scaling or rope_parameters; {} for none."""

    dim: int
    theta: float
    scaling: Mapping[str, Any]

    @property
    def type(self) -> str:
        return str(self.scaling.get("rope_type", self.scaling.get("type", "default")))

    def check(self) -> None:
        """CheckpointError naming the type or key that is not covered."""
        if self.type not in KEYS:
            raise CheckpointError(
                f"rope_scaling has rope_type {self.type!r}, which is not supported; supported: {', '.join(KEYS)}"
            )
        missing = [key for key in KEYS[self.type] if self.scaling.get(key) is None]
        if missing:
            raise CheckpointError(f"rope_scaling of type {self.type!r} lacks {', '.join(missing)}")
        known = (*KEYS[self.type], *OPTIONAL.get(self.type, ()), *COMMON)
        unknown = [key for key, value in self.scaling.items() if key not in known and value is not None]
        if unknown:
            raise CheckpointError(
                f"rope_scaling of type {self.type!r} has {unknown[0]} = {self.scaling[unknown[0]]!r}, which is not supported"
            )
        for key in (*KEYS[self.type], *OPTIONAL.get(self.type, ())):
            value = self.scaling.get(key)
            if value is not None and (
                not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0
            ):
                raise CheckpointError(
                    f"rope_scaling has {key} = {value!r}; expected a finite number, not negative"
                )
        if self.scaling.get("factor") == 0:
            raise CheckpointError("rope_scaling has factor = 0; expected a number above 0")

    def inv_freq(self) -> np.ndarray:
        """f32 [dim/2]."""
        exponent = (np.arange(0, self.dim, 2, dtype=np.float32) / np.float32(self.dim)).astype(np.float64)
        plain = (1.0 / np.float32(self.theta**exponent)).astype(np.float32)
        match self.type:
            case "linear":
                return plain / np.float32(self.scaling["factor"])
            case "llama3":
                return _llama3(plain, self.scaling)
            case "yarn":
                return _yarn(plain, self.dim, self.theta, self.scaling)
            case _:
                return plain

    def scale(self) -> float:
        """Multiplies cosine and sine: yarn's attention scaling, else 1."""
        if self.type != "yarn":
            return 1.0
        if self.scaling.get("attention_factor") is not None:
            return float(self.scaling["attention_factor"])
        factor = float(self.scaling["factor"])
        mscale, mscale_all = self.scaling.get("mscale"), self.scaling.get("mscale_all_dim")
        if mscale and mscale_all:
            return _mscale(factor, mscale) / _mscale(factor, mscale_all)
        return _mscale(factor, 1.0)


def _mscale(factor: float, weight: float) -> float:
    return 0.1 * weight * math.log(factor) + 1.0 if factor > 1 else 1.0


def _llama3(plain: np.ndarray, scaling: Mapping[str, Any]) -> np.ndarray:
    """Long wavelengths are divided by the factor, short ones stay, those between are blended."""
    factor, low, high = scaling["factor"], scaling["low_freq_factor"], scaling["high_freq_factor"]
    context = scaling["original_max_position_embeddings"]
    wavelength = np.float32(2 * math.pi) / plain
    blend = (context / wavelength - np.float32(low)) / np.float32(high - low)
    blended = (1 - blend) * plain / np.float32(factor) + blend * plain
    slow = np.where(wavelength > context / low, plain / np.float32(factor), blended)
    return np.where(wavelength < context / high, plain, slow).astype(np.float32)


def _yarn(plain: np.ndarray, dim: int, theta: float, scaling: Mapping[str, Any]) -> np.ndarray:
    """Between two dimensions, found from rotations over the original context, extrapolation turns into interpolation."""
    context = scaling["original_max_position_embeddings"]

    def dimension(rotations: float) -> float:
        return dim * math.log(context / (rotations * 2 * math.pi)) / (2 * math.log(theta))

    low, high = dimension(scaling.get("beta_fast") or 32), dimension(scaling.get("beta_slow") or 1)
    if scaling.get("truncate", True):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    high += 0.001 if low == high else 0  # the ramp's slope stays finite
    ramp = np.clip((np.arange(dim // 2, dtype=np.float32) - np.float32(low)) / np.float32(high - low), 0, 1)
    keep = 1 - ramp
    return (plain / np.float32(scaling["factor"]) * (1 - keep) + plain * keep).astype(np.float32)
