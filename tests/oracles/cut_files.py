"""Some of the tensors of a file, with the bytes and the metadata that it has."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gguf import GGUFReader

Keep = Callable[[str], bool]


def cut_safetensors(source: Path, target: Path, keep: Keep) -> None:
    """Metadata of a tensor (torchao's) goes with it."""
    raw = source.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header, data = json.loads(raw[8 : 8 + length]), raw[8 + length :]
    metadata = header.pop("__metadata__", {})
    weights = {weight_of(name) for name in header}
    kept = {key: text for key, text in metadata.items() if key not in weights or keep(key)}
    out: dict[str, Any] = {"__metadata__": {**kept, **_names(kept, keep)}} if metadata else {}
    body = b""
    for name, info in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        if keep(name):
            start, stop = info["data_offsets"]
            out[name] = info | {"data_offsets": [len(body), len(body) + stop - start]}
            body += data[start:stop]
    text = json.dumps(out).encode()
    text += b" " * (-len(text) % 8)
    target.write_bytes(len(text).to_bytes(8, "little") + text + body)


def weight_of(name: str) -> str:
    """torchao: `m._weight_scale` is a part of what the metadata calls `m.weight`."""
    module, _, leaf = name.rpartition(".")
    return f"{module}.weight" if leaf.startswith("_weight_") else name


def _names(metadata: dict[str, str], keep: Keep) -> dict[str, str]:
    """torchao lists all names."""
    listed = metadata.get("tensor_names")
    return {"tensor_names": json.dumps([n for n in json.loads(listed) if keep(n)])} if listed else {}


def cut_json(source: Path, target: Path, keep: Keep) -> None:
    """An index's map, a description of every tensor, keys that are names of modules (mlx); any other file as it is."""
    value = json.loads(source.read_text())
    if "weight_map" in value:
        value["weight_map"] = {name: file for name, file in value["weight_map"].items() if keep(name)}
    elif source.name.startswith("quant_model_description"):
        value = {key: text for key, text in value.items() if "." not in key or keep(key)}
    elif source.name == "config.json" and isinstance(value.get("quantization"), dict):
        for section in ("quantization", "quantization_config"):
            named = value[section].items()
            value[section] = {key: v for key, v in named if "." not in key or keep(f"{key}.weight")}
    elif layers := _named_layers(value):
        for named in layers:
            kept = {name: layer for name, layer in named.items() if keep(f"{name}.weight")}
            named.clear()
            named.update(kept)
    else:
        target.write_bytes(source.read_bytes())
        return
    target.write_text(json.dumps(value, indent=1) + "\n")


def _named_layers(value: dict[str, Any]) -> list[dict[str, Any]]:
    """ModelOpt's `quantized_layers`, of config.json or of the file beside it: none may name what was cut away."""
    sections = (value.get("quantization_config"), value.get("quantization"))
    return [s["quantized_layers"] for s in sections if isinstance(s, dict) and "quantized_layers" in s]


def cut_gguf(source: Path, target: Path, keep: Keep) -> None:
    """The metadata stays byte by byte."""
    raw, reader = source.read_bytes(), GGUFReader(source)
    kept = [tensor for tensor in reader.tensors if keep(tensor.name)]
    first = min(tensor.field.offset for tensor in reader.tensors)
    infos, body = b"", b""
    for tensor in kept:
        body += bytes(-len(body) % reader.alignment)
        name = tensor.name.encode()
        extents = [int(extent) for extent in tensor.shape]
        infos += (
            struct.pack("<Q", len(name)) + name + struct.pack(f"<I{len(extents)}Q", len(extents), *extents)
        )
        infos += struct.pack("<IQ", tensor.tensor_type, len(body))
        body += raw[tensor.data_offset : tensor.data_offset + int(tensor.n_bytes)]
    head = raw[:8] + struct.pack("<Q", len(kept)) + raw[16:first] + infos
    target.write_bytes(head + bytes(-len(head) % reader.alignment) + body)
