"""Whether two checkpoints are the same model beside their weights: config and tokenizer, as both are read."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from fewbit.convert.settled import settled_config
from fewbit.formats.checkpoint import Checkpoint, TokenizerFiles

TOKENS = ("bos_token_id", "eos_token_id", "pad_token_id")  # compared as the tokenizer's
IDLE = ("sliding_window", "use_sliding_window", "max_window_layers", "layer_types")
"""Keys of windows: what is written in GGUF has none (`architecture_of` refuses those that do something)."""
SAME = ({"mistral", "llama"},)


def difference(source: Checkpoint, result: Checkpoint) -> str:
    """The first thing that differs, in words; "" for none."""
    return _config(source, result) or _tokenizer(source.tokenizer, result.tokenizer)


def _config(source: Checkpoint, result: Checkpoint) -> str:
    """Keys of one side alone are compared when neither is a GGUF, which leaves out what says nothing."""
    ours, theirs = settled_config(source), settled_config(result)
    across = "gguf" in (source.format, result.format)
    left_out = {*TOKENS, *(IDLE if across else ())}
    for key in sorted((ours.keys() | theirs.keys()) - left_out):
        one, other = ours.get(key), theirs.get(key)
        if _same(one, other) or (across and _equal_in_gguf(key, one, other)):
            continue
        return f"has the config key {key!r} {str(one)[:80]}, which came back as {str(other)[:80]}"
    return ""


def _equal_in_gguf(key: str, one: Any, other: Any) -> bool:
    if key == "model_type":
        return {one, other} in SAME
    return one in (None, False) and other in (None, False)


def _same(one: Any, other: Any) -> bool:
    """Floats as f32, which is what models compute with and metadata holds."""
    if isinstance(one, float) or isinstance(other, float):
        number = isinstance(one, int | float) and isinstance(other, int | float)
        return number and np.float32(one) == np.float32(other)
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    return bool(one == other)


def _tokenizer(source: TokenizerFiles | None, result: TokenizerFiles | None) -> str:
    if source is None or result is None:
        return "" if source is result else "has a tokenizer, which did not come back"
    for what in ("chat_template", "bos_id", "eos_id", "eos_ids"):
        one, other = getattr(source, what), getattr(result, what)
        if one != other:
            return f"has the tokenizer's {what} {str(one)[:80]}, which came back as {str(other)[:80]}"
    ours, theirs = (_essence(json.loads(files.json)) for files in (source, result))
    for key in ours:
        if ours[key] != theirs[key]:
            return f"has a tokenizer whose {key} came back otherwise"
    return ""


def _essence(whole: dict[str, Any]) -> dict[str, Any]:
    """Text by id, and the merges in their order. Tokens that only fill up the vocabulary are nothing."""
    model = whole["model"]
    added = {token["id"]: (token["content"], bool(token.get("special"))) for token in whole["added_tokens"]}
    texts = {i: text for text, i in model["vocab"].items() if i not in added and text != f"[PAD{i}]"}
    merges = [m if isinstance(m, str) else " ".join(m) for m in model.get("merges", [])]
    return {
        "vocabulary": texts,
        "added tokens": added,
        "merges": merges,
        "merging": bool(model.get("ignore_merges")),
    }
