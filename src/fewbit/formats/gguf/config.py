"""Metadata to the Hugging Face config keys that mean the same. Unknown keys and values are refused by name."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np

from fewbit.formats.gguf.cursor import StringArray
from fewbit.formats.gguf.keys import ARCHITECTURES, Architecture
from fewbit.formats.gguf.metadata import Value
from fewbit.formats.gguf.rope import rope_scaling
from fewbit.schemes.arrays import Array
from fewbit.spec.refusal import CheckpointError

FREE_FORM = (
    "general.",
    "tokenizer.",
    "quantize.",
)  # descriptions, the tokenizer's own, and how it was quantized


@dataclass(frozen=True, slots=True)
class Reader:
    """Typed access to the metadata of one file."""

    where: str
    values: dict[str, Value]

    def fail(self, message: str) -> NoReturn:
        raise CheckpointError(f"{self.where}: {message}")

    def get(self, key: str, kind: str) -> Any:
        """The value of that kind, or None when the key is absent."""
        if key not in self.values:
            return None
        value = self.values[key]
        number = isinstance(value, int | float) and not isinstance(value, bool)
        match kind:
            case "count" if isinstance(value, int) and number and 0 < value < 1 << 31:
                return value
            case "positive" if number and 0 < float(value) < math.inf:  # type: ignore[arg-type]
                return float(value)  # type: ignore[arg-type]
            case "float" if number and math.isfinite(value):  # type: ignore[arg-type]
                return value
            case "bool" if isinstance(value, bool):
                return value
            case "string" if isinstance(value, str):
                return value
        shown = f"an array of {len(value)}" if isinstance(value, np.ndarray) else repr(value)[:80]
        shown = f"an array of {value.count} strings" if isinstance(value, StringArray) else shown
        expected = {"count": "a whole number from 1 to 2^31 - 1", "positive": "a finite number above 0",
                    "float": "a finite number"}.get(kind, f"a {kind}")  # fmt: skip
        self.fail(
            f"metadata key {key!r} is {shown}, expected {expected}; the file is corrupt or not supported"
        )


def find_architecture(reader: Reader) -> Architecture:
    name = reader.get("general.architecture", "string")
    if name is None:
        reader.fail(
            "has no metadata key 'general.architecture', so it is not a model; give a model's GGUF file"
        )
    if name not in ARCHITECTURES:
        reader.fail(f"architecture {name!r} is not supported (supported: {', '.join(ARCHITECTURES)})")
    kind = reader.get("general.type", "string") or "model"
    if kind != "model":
        reader.fail(f"is a GGUF of type {kind!r}, not a model; give the model's own file")
    version = reader.get("general.quantization_version", "count") or 2
    if version != 2:
        reader.fail(
            f"has quantization version {version}, expected 2; quantize the model again with current tools"
        )
    return ARCHITECTURES[name]


def read_config(
    reader: Reader,
    architecture: Architecture,
    tensor_names: Collection[str],
    embedding_rows: int,
    rope_factors: Array | None,
) -> dict[str, Any]:
    """rope_factors: the values of the file's rotary divisors, f32 [head_dim / 2]."""
    prefix = architecture.name + "."
    _check_keys(reader, architecture)
    config: dict[str, Any] = {
        "model_type": architecture.model_type,
        "hidden_act": "silu",
        **architecture.fixed,
    }
    for key in architecture.keys:
        value = reader.get(prefix + key.suffix, key.kind)
        if value is None and key.required:
            reader.fail(
                f"has no metadata key {prefix + key.suffix!r}, which a {architecture.name} model needs"
            )
        if value is not None and key.config:
            config[key.config] = value
        if value is not None and key.only and value not in key.only:
            reader.fail(
                f"metadata key {prefix + key.suffix!r} is {value!r}, which is not supported (supported: {key.only[0]!r})"
            )
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    config["num_key_value_heads"] = reader.get(prefix + "attention.head_count_kv", "count") or heads
    if heads % config["num_key_value_heads"]:
        reader.fail(
            f"has {heads} attention heads over {config['num_key_value_heads']} key-value heads, which do not divide"
        )
    config["head_dim"] = _head_dim(reader, prefix, heads, hidden)
    config["vocab_size"] = _vocab_size(reader, prefix, embedding_rows)
    config["tie_word_embeddings"] = "output.weight" not in tensor_names
    for flag, projections in architecture.bias_flags:
        there = {f"blk.0.{projection}.bias" in tensor_names for projection in projections}
        config[flag] = there.pop() if len(there) == 1 else None  # None: each projection for itself
    config["rope_theta"] = reader.get(prefix + "rope.freq_base", "positive") or 10000.0
    config["rope_scaling"] = rope_scaling(reader, prefix, config, rope_factors)
    if config["rope_scaling"]:
        config["rope_scaling"].update(architecture.rope)
    window = reader.get(prefix + "attention.sliding_window", "count")
    if architecture.alternating_windows:
        if window is None:
            reader.fail(
                f"has no metadata key {prefix + 'attention.sliding_window'!r}, which a {architecture.name} model needs"
            )
        config["sliding_window"] = window
        kinds = ("sliding_attention", "full_attention")
        config["layer_types"] = [kinds[i % 2] for i in range(config["num_hidden_layers"])]
    elif window is not None and window < config["max_position_embeddings"]:
        reader.fail(f"metadata key {prefix + 'attention.sliding_window'!r} is {window}, shorter than the context; "
                    "sliding windows are not supported for this architecture")  # fmt: skip
    return config


def _check_keys(reader: Reader, architecture: Architecture) -> None:
    known = {f"{architecture.name}.{key.suffix}" for key in architecture.keys}
    known |= {"split.no", "split.count", "split.tensors.count"}
    unknown = sorted(k for k in reader.values if k not in known and not k.startswith(FREE_FORM))
    if unknown:
        reader.fail(
            f"metadata key{'s' if len(unknown) > 1 else ''} {', '.join(map(repr, unknown[:8]))} "
            f"{'are' if len(unknown) > 1 else 'is'} unknown for architecture {architecture.name!r}; the model is a variant "
            "that is not supported"
        )


def _head_dim(reader: Reader, prefix: str, heads: int, hidden: int) -> int:
    key = reader.get(prefix + "attention.key_length", "count")
    if key is None and hidden % heads:
        reader.fail(
            f"has hidden size {hidden}, not a multiple of its {heads} attention heads, and no {prefix}attention.key_length"
        )
    head_dim: int = key or hidden // heads
    value = reader.get(prefix + "attention.value_length", "count") or head_dim
    if value != head_dim:
        reader.fail(
            f"has keys of length {head_dim} but values of length {value}; unequal lengths are not supported"
        )
    rotary = reader.get(prefix + "rope.dimension_count", "count") or head_dim
    if rotary != head_dim:
        reader.fail(f"metadata key {prefix + 'rope.dimension_count'!r} is {rotary}, expected the head length {head_dim}; "
                    "partial rotation is not supported")  # fmt: skip
    if head_dim % 2:
        reader.fail(f"has attention heads of length {head_dim}, expected an even number")
    return head_dim


def _vocab_size(reader: Reader, prefix: str, embedding_rows: int) -> int:
    stated = reader.get(prefix + "vocab_size", "count")
    if stated is not None and stated != embedding_rows:
        reader.fail(
            f"metadata key {prefix + 'vocab_size'!r} is {stated}, but tensor 'token_embd.weight' has {embedding_rows} rows"
        )
    return embedding_rows
