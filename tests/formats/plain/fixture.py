"""Writing Hugging Face folders for tests, with our own safetensors encoder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fewbit.formats.folder.writer import safetensors_bytes, with_header, write_json, write_weights
from fewbit.schemes import SCHEMES
from fewbit.schemes.plain.reference import quantize
from tests.formats.tiny import CHAT_TEMPLATE, CONTROL_TOKENS, tiny_config, tiny_vocabulary, tiny_weights

__all__ = [
    "safetensors_bytes",
    "tiny_folder",
    "tokenizer_json",
    "with_header",
    "write_tiny_files",
    "write_weights",
]


def tiny_folder(
    folder: Path,
    scheme: str = "bf16",
    model_type: str = "llama",
    seed: int = 0,
    shards: int = 1,
    **changes: Any,
) -> Path:
    """A random model with tokenizer and template; the same weights as `tiny_gguf` of that seed and config."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(model_type, **changes)
    weights = {name: quantize(w, SCHEMES[scheme]) for name, w in tiny_weights(config, seed).items()}
    write_weights(folder, weights, shards)
    write_tiny_files(folder, config)
    return folder


def write_tiny_files(folder: Path, config: dict[str, Any]) -> None:
    """config.json, tokenizer and the rest of a tiny model, whatever the format of its weights."""
    write_json(folder / "config.json", {**config, "bos_token_id": 1, "eos_token_id": 2})
    write_json(folder / "tokenizer.json", tokenizer_json())
    write_json(
        folder / "tokenizer_config.json",
        {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "chat_template": CHAT_TEMPLATE},
    )
    write_json(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": [2, 0]})


def tokenizer_json() -> dict[str, Any]:
    tokens, _, merges = tiny_vocabulary()
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    digits = {"type": "Digits", "individual_digits": True}
    return {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [
            {"id": i, "content": token, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
            for i, token in enumerate(CONTROL_TOKENS)
        ],
        "normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, byte_level]},
        "post_processor": None, "decoder": byte_level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
                  "vocab": {token: i for i, token in enumerate(tokens)}, "merges": [pair.split(" ") for pair in merges]},
    }  # fmt: skip
