"""Hugging Face config keys as metadata of a GGUF: the inverse of `config`. What metadata cannot say is a ValueError."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from fewbit.formats.gguf.keys import ARCHITECTURES, Architecture
from fewbit.formats.gguf.rope import llama3_divisors
from fewbit.schemes.arrays import Array

ALIASES = {"mistral": "llama"}
"""Model types that run as another's architecture when nothing of their own is used."""


def architecture_of(config: Mapping[str, Any]) -> Architecture:
    model_type = ALIASES.get(config["model_type"], config["model_type"])
    found = [a for a in ARCHITECTURES.values() if a.model_type == model_type]
    if not found:
        raise ValueError(f"GGUF has no architecture for the model type {config['model_type']!r}")
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    if window is not None and not found[0].alternating_windows and window < config["max_position_embeddings"]:
        raise ValueError(f"GGUF cannot express the sliding window of {window} for {config['model_type']!r}")
    for key, fixed in found[0].fixed.items():
        if config.get(key, fixed) != fixed:
            raise ValueError(
                f"GGUF cannot express {key} {config[key]!r} for {model_type!r}, which always has {fixed!r}"
            )
    return found[0]


def metadata_of(config: Mapping[str, Any], architecture: Architecture) -> dict[str, Any]:
    """All but the tokenizer's; keys of Hugging Face that are unknown are checked by reading it back."""
    found: dict[str, Any] = {}
    for key in architecture.keys:
        if key.config and config.get(key.config) is not None:
            value = config[key.config]
            found[key.suffix] = float(value) if key.kind in ("positive", "float") else value
    found["attention.head_count_kv"] = config["num_key_value_heads"]
    found["attention.key_length"] = found["attention.value_length"] = config["head_dim"]
    found["rope.dimension_count"] = config["head_dim"]
    found["rope.freq_base"] = float(config.get("rope_theta") or 10000.0)
    found["vocab_size"] = config["vocab_size"]
    if architecture.alternating_windows:
        found["attention.sliding_window"] = config["sliding_window"]
    found |= _rope(config.get("rope_scaling"))
    return {
        "general.architecture": architecture.name, "general.type": "model", "general.quantization_version": 2,
        **{f"{architecture.name}.{key}": value for key, value in found.items()},
    }  # fmt: skip


def _rope(scaling: Mapping[str, Any] | None) -> dict[str, Any]:
    if scaling is None:
        return {}
    kind = scaling["rope_type"]
    found: dict[str, Any] = {
        "rope.scaling.type": kind,
        "rope.scaling.factor": float(scaling.get("factor", 1.0)),
    }
    match kind:
        case "llama3":
            return {}  # a tensor says it
        case "linear":
            return found
        case "yarn" if scaling.get("attention_factor") is None:
            found["rope.scaling.original_context_length"] = scaling["original_max_position_embeddings"]
            for name in ("beta_fast", "beta_slow"):
                if scaling.get(name) is not None:
                    found[f"rope.scaling.yarn_{name}"] = float(scaling[name])
            return found
    raise ValueError(f"GGUF cannot express the rope scaling {dict(scaling)}")


def rope_divisors(config: Mapping[str, Any]) -> Array | None:
    """f32 [head_dim / 2] of the tensor that stands for llama3's rotary scaling; None for other scalings."""
    scaling = config.get("rope_scaling")
    if scaling is None or scaling["rope_type"] != "llama3":
        return None
    return llama3_divisors(config["head_dim"], config["rope_theta"], scaling).astype(np.float32)
