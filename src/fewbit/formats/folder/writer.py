"""Writing safetensors files and their index: for export, and for the fixtures of all folder formats."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from fewbit.schemes.arrays import Array
from fewbit.spec.scheme import QuantTensor, Scheme

_KINDS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


@dataclass(frozen=True, slots=True)
class DiskArray:
    """An array with the container's name of its type: I32, F8_E4M3 (held as uint8), BF16 (held as uint16), ..."""

    kind: str
    array: Array


class Shaped(Protocol):
    """What an encoder asks of a weight before it decides how to store it: a QuantTensor, or the description of one."""

    @property
    def scheme(self) -> Scheme: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


def safetensors_bytes(
    tensors: Mapping[str, QuantTensor | DiskArray], metadata: Mapping[str, str] | None = None
) -> bytes:
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    data = b""
    for name, tensor in tensors.items():
        stored = as_disk(tensor)
        raw = stored.array.tobytes()
        header[name] = {"dtype": stored.kind, "shape": list(stored.array.shape),
                        "data_offsets": [len(data), len(data) + len(raw)]}  # fmt: skip
        data += raw
    return with_header(json.dumps(header).encode(), data)


def as_disk(tensor: QuantTensor | DiskArray) -> DiskArray:
    """A plain tensor as it is stored."""
    if isinstance(tensor, DiskArray):
        return tensor
    return DiskArray(_KINDS[tensor.scheme.name], tensor.parts["codes"])


def with_header(header: bytes, data: bytes) -> bytes:
    """Header text, right or wrong, and data as a safetensors file."""
    return len(header).to_bytes(8, "little") + header + data


def write_weights(folder: Path, weights: Mapping[str, QuantTensor | DiskArray], shards: int = 1) -> None:
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
    size = sum(as_disk(w).array.nbytes for w in weights.values())
    write_json(
        folder / "model.safetensors.index.json", {"metadata": {"total_size": size}, "weight_map": weight_map}
    )


def write_json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=1), encoding="utf-8")
