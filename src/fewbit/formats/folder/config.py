"""config.json, checked key by key and completed with the defaults of the model's own config class."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from fewbit.formats.folder.keys import CORE, HARMLESS, MODEL_TYPES, NEUTRAL, UNSERVED, Key, ModelType
from fewbit.formats.folder.rope import rope
from fewbit.spec.refusal import CheckpointError


@dataclass(frozen=True, slots=True)
class Reader:
    where: str
    values: dict[str, Any]

    def fail(self, message: str) -> NoReturn:
        raise CheckpointError(f"{self.where}: {message}")

    def get(self, name: str, key: Key) -> Any:
        value = self.values.get(name)
        if value is None:
            if key.required:
                self.fail(
                    f"key {name!r} is absent, expected {_EXPECTED[key.kind]}; the model cannot be built without it"
                )
            return None if key.nullable and name in self.values else key.default
        if not _is(value, key.kind):
            self.fail(f"key {name!r} is {repr(value)[:80]}, expected {_EXPECTED[key.kind]}")
        if key.only and value not in key.only:
            self.fail(
                f"key {name!r} is {value!r}, which is not supported (supported: {', '.join(map(repr, key.only))})"
            )
        return value

    def all(self, keys: Mapping[str, Key], harmless: Collection[str], what: str) -> dict[str, Any]:
        """Every declared key's value; a key that is neither declared nor harmless is an error. `what` ends the sentence."""
        unknown = sorted(self.values.keys() - keys.keys() - set(harmless))
        if unknown:
            self.fail(
                f"key {unknown[0]!r} is unknown for {what}; it may change the numbers, so it is not read"
            )
        return {name: self.get(name, key) for name, key in keys.items()}


def read_config(reader: Reader) -> dict[str, Any]:
    if reader.get("model_type", CORE["model_type"]) in UNSERVED:
        for name in ("vocab_size", "bos_token_id", "eos_token_id", "pad_token_id"):
            reader.get(name, CORE[name])  # the tokenizer needs them
        return reader.values
    family = _family(reader)
    declared = {**CORE, **family.keys}
    unknown = sorted(reader.values.keys() - declared.keys() - HARMLESS - NEUTRAL.keys())
    if unknown:
        reader.fail(
            f"key{'s' if len(unknown) > 1 else ''} {', '.join(map(repr, unknown[:8]))} {'are' if len(unknown) > 1 else 'is'} "
            f"unknown for model type {family.name!r}; the model is a variant that is not supported"
        )
    for name, neutral in NEUTRAL.items():
        value = reader.values.get(name)
        if value is not None and value != neutral and name not in declared:
            reader.fail(f"key {name!r} is {str(value)[:80]}, which is not supported (supported: {neutral!r})")
    config = {name: reader.get(name, key) for name, key in declared.items()}
    for name in ("rope_parameters", "architectures"):
        config.pop(name, None)
    config["rope_theta"], config["rope_scaling"] = rope(reader, config)
    _complete(reader, config)
    _check_windows(reader, config, family)
    return config


def _family(reader: Reader) -> ModelType:
    if "auto_map" in reader.values:
        reader.fail("key 'auto_map' asks for code from the checkpoint, which fewbit never runs")
    name = reader.get("model_type", CORE["model_type"])
    if name not in MODEL_TYPES:
        reader.fail(f"model type {name!r} is not supported (supported: {', '.join(MODEL_TYPES)})")
    family = MODEL_TYPES[name]
    for architecture in reader.get("architectures", CORE["architectures"]) or ():
        if architecture not in family.architectures:
            reader.fail(
                f"architecture {architecture!r} is not supported (supported: {', '.join(family.architectures)})"
            )
    return family


def _complete(reader: Reader, config: dict[str, Any]) -> None:
    heads, hidden = config["num_attention_heads"], config["hidden_size"]
    if config["num_key_value_heads"] is None:
        config["num_key_value_heads"] = heads
    if heads % config["num_key_value_heads"]:
        reader.fail(
            f"has {heads} attention heads over {config['num_key_value_heads']} key-value heads, which do not divide"
        )
    if config["head_dim"] is None:
        if hidden % heads:
            reader.fail(
                f"has hidden_size {hidden}, not a multiple of its {heads} attention heads, and no head_dim"
            )
        config["head_dim"] = hidden // heads
    if config["head_dim"] % 2:
        reader.fail(f"has head_dim {config['head_dim']}, expected an even number")


def _check_windows(reader: Reader, config: dict[str, Any], family: ModelType) -> None:
    """Which layer of a qwen model has which window is the family's to say; all layers of a mistral have the same."""
    if family.name != "mistral":
        return
    types = config.pop("layer_types", None)
    if types is None:
        return
    if len(types) != config["num_hidden_layers"] or len(set(types)) > 1:
        reader.fail(
            f"key 'layer_types' is {str(types)[:80]}, expected one kind for all {config['num_hidden_layers']} layers"
        )
    if types[0] not in ("full_attention", "sliding_attention"):
        reader.fail(f"key 'layer_types' names {types[0]!r}, which is not supported")
    if types[0] == "full_attention":
        config["sliding_window"] = None


_EXPECTED = {
    "count": "a whole number from 1 to 2^31 - 1", "positive": "a finite number above 0", "number": "a finite number",
    "bool": "true or false", "string": "a string", "ids": "a token id or a list of them", "object": "an object",
    "strings": "a list of strings", "whole": "a whole number", "any": "a value",
}  # fmt: skip


def _is(value: Any, kind: str) -> bool:
    whole = type(value) is int
    match kind:
        case "count":
            return whole and 0 < value < 1 << 31
        case "whole":
            return whole
        case "any":
            return True
        case "positive":
            return (whole or isinstance(value, float)) and 0 < value < math.inf
        case "number":
            return (whole and abs(value) < 1 << 63) or (isinstance(value, float) and math.isfinite(value))
        case "bool":
            return isinstance(value, bool)
        case "string":
            return isinstance(value, str)
        case "ids":
            return all(
                type(v) is int and -1 <= v < 1 << 31 for v in (value if isinstance(value, list) else [value])
            )
        case "strings":
            return isinstance(value, list) and all(isinstance(v, str) for v in value)
        case _:
            return isinstance(value, dict)
