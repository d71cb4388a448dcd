"""How a folder says that keys and values of the cache are quantized, beside the scales that it stores of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fewbit.convert.source import Source
from fewbit.formats.folder.files import CONFIG_KEYS, SIDE_FILES
from fewbit.formats.folder.members import MAX_JSON_BYTES, member
from fewbit.formats.strict_json import read_object

DEFAULT = "FP8"
_KEYS = ("kv_cache_quant_algo", "kv_cache_scheme", "kv_cache_quant_config")


def cache_form(source: Source) -> str:
    """FP8, NVFP4, or as the folder says it; FP8 where it stores scales and says nothing."""
    for declared in _declared(source):
        for key in _KEYS:
            if declared.get(key):
                return _form(declared[key])
    return DEFAULT


def _declared(source: Source) -> Iterator[dict[str, Any]]:
    for name in ("config.json", *SIDE_FILES):
        path = member(source.path, name)
        if path is None:
            continue
        whole = read_object(path, MAX_JSON_BYTES)
        inner = (
            [whole, whole.get("quantization")]
            if name != "config.json"
            else [whole.get(k) for k in CONFIG_KEYS]
        )
        yield from (found for found in inner if isinstance(found, dict))


def _form(value: Any) -> str:
    """A name, a description of one type, or Quark's specs of layers by name."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict) and "num_bits" in value:
        kind, bits = value.get("type", "int"), value["num_bits"]
        return {("float", 8): "FP8", ("float", 4): "NVFP4"}.get((kind, bits), f"{kind}{bits}")
    if isinstance(value, dict):
        specs = [layer.get("output_tensors") for layer in value.values() if isinstance(layer, dict)]
        kinds = {str(spec.get("dtype")) for spec in specs if isinstance(spec, dict)}
        return "FP8" if kinds <= {"fp8_e4m3"} else " and ".join(sorted(kinds))
    return str(value)[:80]
