"""Writing Hugging Face folders for tests, with our own safetensors encoder."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fewbit.schemes import SCHEMES
from fewbit.schemes.plain.reference import quantize
from fewbit.spec.scheme import QuantTensor
from tests.formats.tiny import CHAT_TEMPLATE, CONTROL_TOKENS, tiny_config, tiny_vocabulary, tiny_weights

_DTYPES = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def safetensors_bytes(tensors: Mapping[str, QuantTensor], metadata: Mapping[str, str] | None = None) -> bytes:
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    data = b""
    for name, tensor in tensors.items():
        raw = tensor.parts["codes"].tobytes()
        header[name] = {"dtype": _DTYPES[tensor.scheme.name], "shape": list(tensor.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}  # fmt: skip
        data += raw
    return with_header(json.dumps(header).encode(), data)


def with_header(header: bytes, data: bytes) -> bytes:
    """Header text, right or wrong, and data as a safetensors file."""
    return len(header).to_bytes(8, "little") + header + data


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
    _write_json(folder / "config.json", {**config, "bos_token_id": 1, "eos_token_id": 2})
    _write_json(folder / "tokenizer.json", tokenizer_json())
    _write_json(
        folder / "tokenizer_config.json",
        {"bos_token": "<|im_start|>", "eos_token": "<|im_end|>", "chat_template": CHAT_TEMPLATE},
    )
    _write_json(folder / "generation_config.json", {"bos_token_id": 1, "eos_token_id": [2, 0]})
    return folder


def write_weights(folder: Path, weights: Mapping[str, QuantTensor], shards: int = 1) -> None:
    if shards == 1:
        (folder / "model.safetensors").write_bytes(safetensors_bytes(weights, {"format": "pt"}))
        return
    names = list(weights)
    weight_map: dict[str, str] = {}
    for shard in range(shards):
        part = {name: weights[name] for name in names[shard::shards]}
        file = f"model-{shard + 1:05d}-of-{shards:05d}.safetensors"
        (folder / file).write_bytes(safetensors_bytes(part, {"format": "pt"}))
        weight_map |= dict.fromkeys(part, file)
    size = sum(w.parts["codes"].nbytes for w in weights.values())
    _write_json(
        folder / "model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": weight_map}
    )


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


def _write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
