"""What a folder holds beside its weights: the model's config, the tokenizer, and other files that are kept as they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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
    tokens = {}
    tokenizer = source.checkpoint.tokenizer
    if tokenizer is not None:
        tokens = {
            "bos_token_id": tokenizer.bos_id,
            "eos_token_id": tokenizer.eos_id,
            "pad_token_id": tokenizer.pad_id,
        }
    return {"architectures": [architecture], **config, **tokens}


def tokenizer_files(source: Source) -> dict[str, str]:
    """Of a GGUF: its tokenizer as the files of a folder."""
    return {}
