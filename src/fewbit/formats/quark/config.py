"""Quark's configuration: a spec for all layers, others by layer name or type, and the layers that are left alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.keys import Key
from fewbit.formats.folder.resolve import Module
from fewbit.formats.quark.spec import ELEMENTS, TensorSpec, read_spec

KEYS: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=("quark",)),
    "global_quant_config": Key("object"),
    "layer_quant_config": Key("object", default={}),
    "layer_type_quant_config": Key("object", default={}),
    "exclude": Key("strings", default=[]),
    "export": Key("object", default={}),
    "algo_config": Key("any"),
    "kv_cache_quant_config": Key("object", default={}),
    "kv_cache_post_rope": Key("bool", default=False, only=(False,)),
    "softmax_quant_spec": Key("any"),
    "quant_mode": Key("string", only=("eager_mode", "fx_graph_mode")),
    "version": Key("string"),
}
EXPORT_KEYS: dict[str, Key] = {
    "pack_method": Key("string", default="reorder", only=("reorder", "order")),
    "weight_format": Key("string", default="real_quantized", only=("real_quantized",)),
    "kv_cache_group": Key("strings"),
    "min_kv_scale": Key("number"),
    "weight_merge_groups": Key("any"),
}
LAYER_KEYS: dict[str, Key] = {
    "weight": Key("any"),
    "input_tensors": Key("any"),
    "output_tensors": Key("any"),
    "bias": Key("any"),
    "target_device": Key("string"),
}
TYPES = ("Linear", "Embedding")
FOLDED = ("smooth", "smoothquant", "awq", "gptq", "autosmoothquant", "qronos")
"""Algorithms whose result is in the weights alone. Others (rotations) may change activations."""


@dataclass(frozen=True, slots=True)
class LayerSpec:
    weight: TensorSpec | None
    inputs: TensorSpec | None


@dataclass(frozen=True, slots=True)
class Settings:
    """`reordered`: eight INT4 columns lie in AWQ's order in their word."""

    where: str
    everywhere: LayerSpec | None
    by_name: dict[str, LayerSpec] = field(default_factory=dict)
    by_type: dict[str, LayerSpec] = field(default_factory=dict)
    excluded: tuple[str, ...] = ()
    reordered: bool = True

    def rule_of(self, module: str) -> str:
        """The entry that leaves the module plain, "" for none."""
        return next((entry for entry in self.excluded if fnmatchcase(module, entry)), "")

    def named(self, names: Iterable[str]) -> str:
        """The glob of `by_name` that names the module under one of its names, "" for none."""
        own = tuple(names)
        found = [glob for glob in self.by_name if any(fnmatchcase(name, glob) for name in own)]
        for glob in found[1:]:
            if self.by_name[glob] != self.by_name[found[0]]:
                Reader(self.where, {}).fail(
                    f"layer_quant_config has {found[0]!r} and {glob!r} for the module {own[0]!r}, which differ; expected one"
                )
        return found[0] if found else ""

    def spec_of(self, module: Module) -> tuple[LayerSpec | None, str]:
        """By name before type before all, and the rule that says so."""
        if glob := self.named((module.name, *module.spellings)):
            return self.by_name[glob], f"layer_quant_config {glob!r}"
        kind = "Embedding" if module.name.endswith("embed_tokens") else "Linear"
        if kind in self.by_type:
            return self.by_type[kind], f"layer_type_quant_config {kind!r}"
        return self.everywhere, "global_quant_config"


def read_settings(files: FolderFiles) -> Settings:
    declaration = files.declarations["quantization_config"]
    reader = Reader(declaration.where, declaration.values)
    values = reader.all(KEYS, (), "the format quark")
    export = Reader(f"{reader.where}: export", values["export"]).all(EXPORT_KEYS, (), "the export of quark")
    _check_algorithms(reader, values["algo_config"])
    whole = values["global_quant_config"]
    types = {}
    for name, layer in values["layer_type_quant_config"].items():
        kind = name.rstrip("'>").rpartition(".")[2]
        if kind not in TYPES:
            reader.fail(
                f"layer_type_quant_config names {name!r}, which is not supported (supported: {', '.join(TYPES)})"
            )
        types[kind] = _layer(f"{reader.where}: layer_type_quant_config {name!r}", layer)
    return Settings(
        reader.where,
        None if whole is None else _layer(f"{reader.where}: global_quant_config", whole),
        {
            glob: _layer(f"{reader.where}: layer_quant_config {glob!r}", layer)
            for glob, layer in values["layer_quant_config"].items()
        },
        types,
        tuple(values["exclude"]),
        export["pack_method"] == "reorder",
    )


def _layer(where: str, value: Any) -> LayerSpec:
    reader = Reader(where, value if isinstance(value, dict) else {})
    if not isinstance(value, dict):
        reader.fail(f"is {repr(value)[:80]}, expected an object")
    values = reader.all(LAYER_KEYS, (), "a layer of quark")
    if values["bias"] is not None:
        reader.fail("key 'bias' asks for a quantized bias, which is not supported (supported: null)")
    weight = None if values["weight"] is None else read_spec(f"{where}: weight", values["weight"])
    if weight is not None and weight.element not in ELEMENTS:
        reader.fail(
            f"key 'weight' has the dtype {weight.element!r}, which is not supported (supported: {', '.join(ELEMENTS)})"
        )
    inputs = values["input_tensors"]
    return LayerSpec(weight, None if inputs is None else read_spec(f"{where}: input_tensors", inputs))


def _check_algorithms(reader: Reader, value: Any) -> None:
    for entry in value if isinstance(value, list) else [value] if value else []:
        name = entry.get("name") if isinstance(entry, dict) else entry
        if name not in FOLDED:
            reader.fail(
                f"key 'algo_config' names {repr(name)[:80]}, which may change activations and is not supported (supported: {', '.join(FOLDED)})"
            )
