"""A folder as large as one likes that takes no room: headers are written, the data is a hole."""

from __future__ import annotations

import json
from pathlib import Path

from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config

BYTES = {"F8_E4M3": 1, "F32": 4, "BF16": 2}
FP8 = {"quant_method": "fp8", "fmt": "e4m3", "activation_scheme": "dynamic", "weight_block_size": [128, 128]}
SIZES = {"hidden_size": 2048, "intermediate_size": 6144, "num_attention_heads": 16, "num_key_value_heads": 4}


def huge_fp8(folder: Path, layers: int, shards: int) -> tuple[int, int]:
    """A model of 16 tensors and 48 MB a layer; how many tensors and bytes the weight files say they have."""
    folder.mkdir()
    config = tiny_config(num_hidden_layers=layers, head_dim=128, **SIZES)
    write_tiny_files(folder, config)
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": FP8}))
    tensors = _tensors(layers, config["vocab_size"])
    names, weight_map, total = list(tensors), {}, 0
    for number in range(shards):
        file = f"model-{number + 1:05}-of-{shards:05}.safetensors"
        mine = names[number::shards]
        total += _write_shard(folder / file, {name: tensors[name] for name in mine})
        weight_map |= dict.fromkeys(mine, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return len(names), total


def _tensors(layers: int, vocab: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    h, i = SIZES["hidden_size"], SIZES["intermediate_size"]
    matrices = {"self_attn.q_proj": (h, h), "self_attn.k_proj": (512, h), "self_attn.v_proj": (512, h)}
    matrices |= {
        "self_attn.o_proj": (h, h),
        "mlp.gate_proj": (i, h),
        "mlp.up_proj": (i, h),
        "mlp.down_proj": (h, i),
    }
    found: dict[str, tuple[str, tuple[int, ...]]] = {
        "model.embed_tokens.weight": ("BF16", (vocab, h)), "lm_head.weight": ("BF16", (vocab, h)),
        "model.norm.weight": ("BF16", (h,)),
    }  # fmt: skip
    for layer in range(layers):
        at = f"model.layers.{layer}."
        for name, (n, k) in matrices.items():
            found[f"{at}{name}.weight"] = ("F8_E4M3", (n, k))
            found[f"{at}{name}.weight_scale_inv"] = ("F32", (n // 128, k // 128))
        for name in ("input_layernorm", "post_attention_layernorm"):
            found[f"{at}{name}.weight"] = ("BF16", (h,))
    return found


def _write_shard(path: Path, tensors: dict[str, tuple[str, tuple[int, ...]]]) -> int:
    header, offset = {}, 0
    for name, (kind, shape) in tensors.items():
        size = BYTES[kind]
        for extent in shape:
            size *= extent
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + size]}
        offset += size
    raw = json.dumps(header).encode()
    with path.open("wb") as file:
        file.write(len(raw).to_bytes(8, "little") + raw)
        file.truncate(8 + len(raw) + offset)
    return offset
