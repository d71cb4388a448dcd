"""ModelOpt's configuration: flat in config.json, nested in hf_quant_config.json, or both, which then agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import Declaration, FolderFiles
from fewbit.formats.folder.keys import Key
from fewbit.formats.modelopt.algorithms import ALGORITHMS
from fewbit.formats.modelopt.settings import Layer, Settings

SIDE_FILE = "hf_quant_config.json"
MIXED = "MIXED_PRECISION"
METHODS = ("modelopt", "modelopt_fp8", "modelopt_fp4", "modelopt_mixed")
CACHES = ("FP8", "NVFP4")
OUTER: dict[str, Key] = {
    "quant_method": Key("string", only=METHODS),
    "producer": Key("object"),
    "quantization": Key("object", required=True),
}
KEYS: dict[str, Key] = {
    "quant_method": Key("string", only=METHODS),
    "producer": Key("object"),
    "quant_algo": Key("string", required=True),
    "group_size": Key("count"),
    "has_zero_point": Key("bool", only=(False,)),
    "pre_quant_scale": Key("bool"),
    "ignore": Key("strings"),
    "exclude_modules": Key("strings"),
    "quantized_layers": Key("object"),
    "config_groups": Key("object"),
    "kv_cache_quant_algo": Key("string", only=CACHES),
    "kv_cache_scheme": Key("any"),
}
LAYER_KEYS: dict[str, Key] = {
    "quant_algo": Key("string", required=True),
    "group_size": Key("count"),
    "has_zero_point": Key("bool", only=(False,)),
    "pre_quant_scale": Key("bool"),
}


def is_modelopt(declaration: Declaration) -> bool:
    if declaration.key != SIDE_FILE:
        return declaration.method in METHODS
    producer = declaration.values.get("producer")
    return isinstance(producer, dict) and producer.get("name") == "modelopt"


def read_settings(files: FolderFiles) -> Settings:
    found = [
        files.declarations[key] for key in ("quantization_config", SIDE_FILE) if key in files.declarations
    ]
    readers = [_inner(declaration) for declaration in found if is_modelopt(declaration)]
    read = [_values(reader) for reader in readers]
    values = dict(read[0])
    for reader, twin in zip(readers[1:], read[1:]):
        for key, value in twin.items():
            if None not in (value, values[key]) and value != values[key]:
                reader.fail(
                    f"key {key!r} is {str(value)[:80]}, but {readers[0].where} says {str(values[key])[:80]}"
                )
            values[key] = values[key] if value is None else value
    first, mixed = readers[0], values["quant_algo"] == MIXED
    if mixed != bool(values["quantized_layers"]):
        first.fail(
            f"has quant_algo {values['quant_algo']!r} and {'no' if mixed else 'also'} quantized_layers, which contradict each other"
        )
    layers = dict(_layers(first, values["quantized_layers"] or {}))
    whole = None if mixed else _layer(first, values["quant_algo"], values["group_size"])
    return Settings(first.where, whole, layers, tuple(values["ignore"] or ()))


def _inner(declaration: Declaration) -> Reader:
    reader = Reader(declaration.where, declaration.values)
    if "quantization" not in reader.values:
        return reader
    return Reader(
        f"{reader.where}: quantization", reader.all(OUTER, (), "the format modelopt")["quantization"]
    )


def _values(reader: Reader) -> dict[str, Any]:
    """The two spellings of the excluded modules and of the cache as one."""
    values = reader.all(KEYS, (), "the format modelopt")
    excluded = values.pop("exclude_modules")
    if None not in (excluded, values["ignore"]) and excluded != values["ignore"]:
        reader.fail("has 'ignore' and 'exclude_modules', which differ; expected one of them")
    values["ignore"] = excluded if values["ignore"] is None else values["ignore"]
    values["quant_algo"] = values["quant_algo"].upper()
    scheme = values.pop("kv_cache_scheme")
    if isinstance(scheme, dict):
        form = f"{scheme.get('type')}{scheme.get('num_bits')}"
        scheme = {"float8": "FP8", "float4": "NVFP4"}.get(form, form)
    if scheme is not None and scheme not in CACHES:
        reader.fail(
            f"key 'kv_cache_scheme' is {str(reader.values['kv_cache_scheme'])[:80]}, expected one of {', '.join(CACHES)}"
        )
    values["kv_cache_quant_algo"] = values["kv_cache_quant_algo"] or scheme
    return {k: v for k, v in values.items() if k not in ("quant_method", "producer", "config_groups")}


def _layers(reader: Reader, entries: dict[str, Any]) -> Iterator[tuple[str, Layer]]:
    for name, entry in entries.items():
        own = Reader(f"{reader.where}: quantized_layers {name!r}", entry if isinstance(entry, dict) else {})
        if not isinstance(entry, dict):
            own.fail(f"is {repr(entry)[:80]}, expected an object")
        values = own.all(LAYER_KEYS, (), "a quantized layer")
        yield name, _layer(own, values["quant_algo"].upper(), values["group_size"])


def _layer(reader: Reader, algorithm: str, group_size: int | None) -> Layer:
    if algorithm not in ALGORITHMS:
        reader.fail(
            f"key 'quant_algo' is {algorithm!r}, which is not supported (supported: {', '.join(ALGORITHMS)}, {MIXED})"
        )
    return Layer(algorithm, group_size or 0)
