"""What a folder holds beside its weights: the model's config, the tokenizer, and other files that are kept as they are."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.convert.source import Source
from fewbit.formats.folder.files import CONFIG_KEYS
from fewbit.formats.folder.keys import MODEL_TYPES
from fewbit.formats.folder.members import MAX_JSON_BYTES, member
from fewbit.formats.strict_json import read_object
from fewbit.spec.refusal import FewbitError

KEPT = (
    "generation_config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json",
    "tokenizer.model", "tekken.json", "vocab.json", "vocab.txt", "merges.txt", "chat_template.jinja", "chat_template.json",
    "preprocessor_config.json", "processor_config.json", "LICENSE", "LICENSE.txt", "LICENSE.md", "NOTICE",
)  # fmt: skip
ARCHITECTURES = {"qwen3_moe": "Qwen3MoeForCausalLM", "gpt_oss": "GptOssForCausalLM"}


def is_folder(source: Source) -> bool:
    return source.path.is_dir()


def kept_files(source: Source) -> list[Path]:
    if not is_folder(source):
        return []
    return [path for name in KEPT if (path := member(source.path, name)) is not None]


def model_config(source: Source) -> dict[str, Any]:
    """The source's config.json without what it says of quantization; of a GGUF, the keys that its metadata means."""
    if is_folder(source):
        path = member(source.path, "config.json")
        assert path is not None
        found = read_object(path, MAX_JSON_BYTES)
        return {key: value for key, value in found.items() if key not in CONFIG_KEYS}
    config = dict(source.checkpoint.config)
    model_type = config["model_type"]
    known = MODEL_TYPES.get(model_type)
    architecture = known.architectures[0] if known else ARCHITECTURES.get(model_type)
    if architecture is None:
        raise FewbitError(
            f"{source.path}: model type {model_type!r} has no Hugging Face class that a folder could name"
        )
    tokenizer, tokens = source.checkpoint.tokenizer, dict[str, Any]()
    if tokenizer is not None:
        tokens = {
            "bos_token_id": tokenizer.bos_id,
            "eos_token_id": tokenizer.eos_id,
            "pad_token_id": tokenizer.pad_id,
        }
    return {
        "architectures": [architecture],
        **{key: _short(value) for key, value in config.items()},
        **tokens,
    }


def _short(value: Any) -> Any:
    """Metadata holds floats of 32 bits: the shortest decimals that mean the same."""
    return float(str(np.float32(value))) if isinstance(value, float) and value == np.float32(value) else value


def tokenizer_files(source: Source) -> dict[str, str]:
    """Of a GGUF: its tokenizer as the files of a folder."""
    found = None if is_folder(source) else source.checkpoint.tokenizer
    if found is None:
        return {}
    whole = json.loads(found.json)
    texts = {token["id"]: token["content"] for token in whole["added_tokens"]}
    texts |= {i: text for text, i in whole["model"]["vocab"].items()}
    roles = {"bos_token": found.bos_id, "eos_token": found.eos_id, "pad_token": found.pad_id}
    named = {role: texts[i] for role, i in roles.items() if i is not None}
    if found.add_bos:
        whole["post_processor"] = _begins_with(named["bos_token"], found.bos_id)
    settings: dict[str, Any] = {"tokenizer_class": "PreTrainedTokenizerFast", **named}
    if found.chat_template is not None:
        settings["chat_template"] = found.chat_template
    generation = {
        "bos_token_id": found.bos_id,
        "eos_token_id": list(found.eos_ids),
        "pad_token_id": found.pad_id,
    }
    files = {
        "tokenizer.json": whole, "tokenizer_config.json": settings,
        "generation_config.json": {key: value for key, value in generation.items() if value is not None},
    }  # fmt: skip
    return {name: json.dumps(value, ensure_ascii=False, indent=1) for name, value in files.items()}


def _begins_with(text: str, token: int | None) -> dict[str, Any]:
    """A post-processor that puts the begin token before the text."""

    def sequence(name: str, kind: int) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": kind}}

    special = {"SpecialToken": {"id": text, "type_id": 0}}
    return {
        "type": "TemplateProcessing", "single": [special, sequence("A", 0)],
        "pair": [special, sequence("A", 0), sequence("B", 1)],
        "special_tokens": {text: {"id": text, "ids": [token], "tokens": [text]}},
    }  # fmt: skip
