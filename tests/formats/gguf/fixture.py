"""Writing GGUF files for tests: our own encoder, so that readers are not tested against themselves only."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.gguf.decode import encode
from fewbit.formats.gguf.encode_container import string, value
from fewbit.formats.gguf.keys import ARCHITECTURES
from fewbit.formats.gguf.names import canonical_name
from fewbit.formats.gguf.permute import disk_rows
from fewbit.formats.gguf.types import BY_SCHEME
from fewbit.schemes import SCHEMES
from fewbit.schemes.arrays import Array
from fewbit.schemes.plain import scheme as plain
from fewbit.schemes.reference import quantize
from fewbit.spec.scheme import QuantTensor
from tests.formats.tiny import CHAT_TEMPLATE, tiny_config, tiny_vocabulary, tiny_weights


@dataclass(frozen=True, slots=True)
class Raw:
    """A metadata value of a given type id, already encoded."""

    kind: int
    data: bytes


@dataclass(frozen=True, slots=True)
class RawTensor:
    """A tensor info as written, right or wrong. `extents` in file order; `offset` None: the next aligned one."""

    kind: int
    extents: tuple[int, ...]
    data: bytes = b""
    offset: int | None = None


def gguf_bytes(
    metadata: Mapping[str, Any],
    tensors: Mapping[str, QuantTensor | RawTensor],
    *,
    version: int = 3,
    alignment: int = 32,
    tensor_count: int | None = None,
    metadata_count: int | None = None,
) -> bytes:
    """The file. Wrong counts, offsets and values can be asked for: that is what this is for."""
    head = struct.pack("<4sIQQ", b"GGUF", version, len(tensors) if tensor_count is None else tensor_count,
                       len(metadata) if metadata_count is None else metadata_count)  # fmt: skip
    out = [head, *(string(key) + _value(value) for key, value in metadata.items())]
    data = b""
    for name, tensor in tensors.items():
        raw = tensor if isinstance(tensor, RawTensor) else raw_tensor(tensor)
        offset = raw.offset
        if offset is None:
            data += bytes(-len(data) % alignment)
            offset = len(data)
        extents = struct.pack(f"<I{len(raw.extents)}Q", len(raw.extents), *raw.extents)
        out.append(string(name) + extents + struct.pack("<IQ", raw.kind, offset))
        data += raw.data
    header = b"".join(out)
    return header + bytes(-len(header) % alignment) + data


def write_gguf(
    path: Path, metadata: Mapping[str, Any], tensors: Mapping[str, QuantTensor | RawTensor], **options: Any
) -> Path:
    path.write_bytes(gguf_bytes(metadata, tensors, **options))
    return path


def raw_tensor(tensor: QuantTensor) -> RawTensor:
    return RawTensor(BY_SCHEME[tensor.scheme].id, tensor.shape[::-1], encode(tensor).tobytes())


def tiny_gguf(
    path: Path, scheme: str = "u4g32o", architecture: str = "llama", seed: int = 0, **changes: Any
) -> Path:
    """A random model of one scheme (norms and biases F32). `changes` go to the config; q and k rows are permuted for llama."""
    path.write_bytes(gguf_bytes(*tiny_gguf_parts(scheme, architecture, seed, **changes)))
    return path


def tiny_gguf_parts(
    scheme: str = "u4g32o", architecture: str = "llama", seed: int = 0, **changes: Any
) -> tuple[dict[str, Any], dict[str, QuantTensor | RawTensor]]:
    """Metadata and tensors, for tests that spoil them before writing."""
    family = ARCHITECTURES[architecture]
    config = tiny_config(family.model_type, **changes)
    names = disk_names(architecture, config["num_hidden_layers"])
    tensors: dict[str, QuantTensor | RawTensor] = {}
    for name, weight in tiny_weights(config, seed).items():
        if family.permuted and ("q_proj" in name or "k_proj" in name):
            weight = to_disk_rows(weight, config["head_dim"])
        tensors[names[name]] = quantize(weight, SCHEMES[scheme] if weight.ndim == 2 else plain.F32)
    return {**tiny_metadata(architecture, config), **tiny_tokenizer()}, tensors


def to_disk_rows(weight: Array, head_dim: int) -> Array:
    """Canonical q or k rows in the order of a `llama` file."""
    out = np.empty_like(weight)
    out[disk_rows(0, len(weight), head_dim)] = weight
    return out


def tiny_metadata(architecture: str, config: Mapping[str, Any]) -> dict[str, Any]:
    values = {
        "block_count": config["num_hidden_layers"], "context_length": config["max_position_embeddings"],
        "embedding_length": config["hidden_size"], "feed_forward_length": config["intermediate_size"],
        "attention.head_count": config["num_attention_heads"], "attention.head_count_kv": config["num_key_value_heads"],
        "attention.key_length": config["head_dim"], "attention.value_length": config["head_dim"],
        "attention.layer_norm_rms_epsilon": float(config["rms_norm_eps"]), "rope.freq_base": float(config["rope_theta"]),
        "rope.dimension_count": config["head_dim"], "vocab_size": config["vocab_size"],
    }  # fmt: skip
    scaling = config.get("rope_scaling")
    if scaling:
        values["rope.scaling.type"] = scaling["rope_type"]
        values["rope.scaling.factor"] = float(scaling["factor"])
        if "original_max_position_embeddings" in scaling:
            values["rope.scaling.original_context_length"] = scaling["original_max_position_embeddings"]
    return {"general.architecture": architecture, "general.type": "model", "general.name": f"tiny {architecture}",
            "general.quantization_version": 2, **{f"{architecture}.{k}": v for k, v in values.items()}}  # fmt: skip


def tiny_tokenizer() -> dict[str, Any]:
    """Its metadata."""
    tokens, types, merges = tiny_vocabulary()
    return {
        "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm", "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array(types, "<i4"), "tokenizer.ggml.merges": merges,
        "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.padding_token_id": 2,
        "tokenizer.ggml.add_bos_token": False, "tokenizer.chat_template": CHAT_TEMPLATE,
    }  # fmt: skip


def disk_names(architecture: str, layers: int) -> dict[str, str]:
    """The file's name of each canonical tensor."""
    parts = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down", "attn_norm", "ffn_norm",
             "attn_q_norm", "attn_k_norm")  # fmt: skip
    disk = ["token_embd.weight", "output_norm.weight", "output.weight"]
    disk += [f"blk.{i}.{part}.{role}" for i in range(layers) for part in parts for role in ("weight", "bias")]
    found = {canonical_name(name, ARCHITECTURES[architecture], layers): name for name in disk}
    return {name: disk_name for name, disk_name in found.items() if name is not None}


def _value(given: Any) -> bytes:
    return struct.pack("<I", given.kind) + given.data if isinstance(given, Raw) else value(given)
