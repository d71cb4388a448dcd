"""Rotary scaling: metadata keys, or a tensor of frequency divisors, to Hugging Face's rope_scaling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from fewbit.schemes.arrays import Array

if TYPE_CHECKING:
    from fewbit.formats.gguf.config import Reader


def rope_scaling(
    reader: Reader, prefix: str, config: dict[str, Any], factors: Array | None
) -> dict[str, Any] | None:
    scaling = prefix + "rope.scaling."
    kind = reader.get(scaling + "type", "string")
    factor = reader.get(scaling + "factor", "positive")
    old_linear = reader.get(prefix + "rope.scale_linear", "positive")
    if kind is None and (factor or old_linear or 1.0) != 1.0:
        kind = "linear"  # files from before the type key
    if factors is not None:
        if kind not in (None, "none"):
            reader.fail(
                f"has both rope scaling {kind!r} and a tensor 'rope_freqs.weight'; expected one of them"
            )
        return _llama3(reader, config, factors)
    match kind:
        case None | "none":
            return None
        case "linear":
            return {"rope_type": "linear", "factor": factor or old_linear or 1.0}
        case "yarn":
            return _yarn(reader, scaling, config, factor)
    reader.fail(
        f"metadata key {scaling + 'type'!r} is {kind!r}, which is not supported (supported: none, linear, yarn)"
    )


def _yarn(reader: Reader, scaling: str, config: dict[str, Any], factor: float | None) -> dict[str, Any]:
    original = reader.get(scaling + "original_context_length", "count")
    if factor is None or original is None:
        reader.fail(
            f"has rope scaling 'yarn' without {scaling}factor or {scaling}original_context_length; it needs both"
        )
    result = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": original}
    for suffix in ("beta_fast", "beta_slow"):
        value = reader.get(f"{scaling}yarn_{suffix}", "positive")
        if value is not None:
            result[suffix] = value
    for key in ("attn_factor", "yarn_attn_factor"):
        stated = reader.get(scaling + key, "positive")
        if (
            stated is not None and stated != 1.0
        ):  # the file's factor multiplies yarn's own, Hugging Face's replaces it
            result["attention_factor"] = stated * (0.1 * math.log(factor) + 1.0)
    return result


def _llama3(reader: Reader, config: dict[str, Any], factors: Array) -> dict[str, Any]:
    """The scaling whose divisors these are. The file has the divisors only, so the published settings are tried.

    Divisors that no setting gives would need a rotary table of their own: refused, rather than nearly right.
    """
    largest = float(factors.max()) if factors.size else 0.0
    for low, high, original in ((1.0, 4.0, 8192),):
        guess = {
            "rope_type": "llama3", "factor": round(largest, 4), "low_freq_factor": low, "high_freq_factor": high,
            "original_max_position_embeddings": original,
        }  # fmt: skip
        if factors.size == config["head_dim"] // 2:
            expected = llama3_divisors(config["head_dim"], config["rope_theta"], guess)
            if np.allclose(factors, expected, rtol=1e-4, atol=0):
                return guess
    reader.fail(
        f"tensor 'rope_freqs.weight' holds {factors.size} frequency divisors up to {largest:g} that are not those of llama3 "
        f"scaling for heads of {config['head_dim']}; only that scaling is supported"
    )


def llama3_divisors(head_dim: int, theta: float, scaling: dict[str, Any]) -> Array:
    """f64 [head_dim / 2]: 1 for short wavelengths, `factor` for long ones, a smooth passage between."""
    factor, original = scaling["factor"], scaling["original_max_position_embeddings"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    wavelength = 2 * np.pi * theta ** (np.arange(0, head_dim, 2) / head_dim)
    smooth = (original / wavelength - low) / (high - low)
    between = 1 / ((1 - smooth) / factor + smooth)
    divisors: Array = np.where(
        wavelength < original / high, 1.0, np.where(wavelength > original / low, factor, between)
    )
    return divisors
