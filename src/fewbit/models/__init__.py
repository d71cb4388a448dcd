"""Model families by Hugging Face model_type: one file each, imported when asked for."""

from __future__ import annotations

import difflib
from importlib import import_module

from fewbit.models.interface import Family
from fewbit.spec.refusal import CheckpointError

FAMILIES = {"llama": "llama", "mistral": "llama", "qwen2": "llama", "qwen3": "llama"}


def family(model_type: str) -> Family:
    """The family's module; CheckpointError naming the nearest when there is none."""
    if model_type not in FAMILIES:
        near = difflib.get_close_matches(model_type, FAMILIES, 1, 0.4)
        hint = f"; the nearest is {near[0]}, which computes something else" if near else ""
        raise CheckpointError(
            f"architecture {model_type!r} is not supported; supported: {', '.join(FAMILIES)}{hint}"
        )
    return import_module(f"fewbit.models.{FAMILIES[model_type]}")  # type: ignore[return-value]
