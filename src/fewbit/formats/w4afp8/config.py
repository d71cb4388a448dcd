"""Two ways to declare it: the method w4afp8, or ModelOpt's MIXED_PRECISION over experts of packed 4-bit codes without NVFP4.

The converter that makes these checkpoints names no layers in hf_quant_config.json, so the tensors say which are which.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import Declaration, FolderFiles
from fewbit.formats.folder.keys import Key
from fewbit.formats.fp8 import config as fp8
from fewbit.formats.fp8.resolve import EXPERT

METHOD = "w4afp8"
MIXED = "MIXED_PRECISION"
SIDE_FILE = "hf_quant_config.json"
BLOCK = [128, 128]
_SKIPS = ("ignored_layers", "modules_to_not_convert", "ignore")
KEYS: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=(METHOD,)),
    "fmt": Key("string", default="e4m3", only=("e4m3",)),
    "activation_scheme": Key("string", only=("dynamic", "static")),
    "linear_activation_scheme": Key("string", default="dynamic", only=("dynamic",)),
    "moe_activation_scheme": Key("string", default="static", only=("static",)),
    "weight_block_size": Key("any", default=BLOCK),
    "group_size": Key("count", default=128),
    **dict.fromkeys(_SKIPS, Key("strings", default=())),
}
HARMLESS = frozenset({"is_checkpoint_fp8_serialized", "is_checkpoint_w4afp8_serialized"})
OUTER: dict[str, Key] = {
    "quant_method": Key("string", only=("modelopt", "modelopt_mixed")),
    "producer": Key("object"),
    "quantization": Key("object", required=True),
}
MIXED_KEYS: dict[str, Key] = {
    "quant_method": Key("string", only=("modelopt", "modelopt_mixed")),
    "producer": Key("object"),
    "quant_algo": Key("string", required=True, only=(MIXED,)),
    "kv_cache_quant_algo": Key("string", only=("FP8",)),
    "group_size": Key("count", default=128),
    "quantized_layers": Key("object", default={}),
    **dict.fromkeys(("exclude_modules", "ignore"), Key("strings", default=())),
}
LAYER: dict[str, Key] = {
    "quant_algo": Key("string", required=True, only=("W4A8_AWQ", "FP8_BLOCK_SCALES", "FP8_PB_WO")),
    "group_size": Key("count"),
}


@dataclass(frozen=True, slots=True)
class Settings:
    """`group_size`: columns of an expert's row that share a scale. `linears`: the FP8 layers."""

    linears: fp8.Settings
    group_size: int = 128


def find_declaration(files: FolderFiles) -> Declaration | None:
    for key in ("quantization_config", SIDE_FILE):
        found = files.declarations.get(key)
        if found is not None:
            mixed = is_mixed(found.values) and _packed_experts(files)
            return found if found.method == METHOD or mixed else None
    return None


def is_mixed(values: dict[str, Any]) -> bool:
    """MIXED_PRECISION without a layer of NVFP4. Looks only, whatever the values are."""
    inner = values.get("quantization", values)
    if not isinstance(inner, dict) or inner.get("quant_algo") != MIXED:
        return False
    layers = inner.get("quantized_layers") or {}
    return isinstance(layers, dict) and "NVFP4" not in str(layers.values())


def _packed_experts(files: FolderFiles) -> bool:
    return any(t.kind == "I8" and EXPERT.search(name) for name, t in files.tensors.items())


def read_settings(files: FolderFiles) -> Settings:
    declaration = find_declaration(files)
    assert declaration is not None
    reader = Reader(declaration.where, declaration.values)
    if declaration.method == METHOD:
        values = reader.all(KEYS, HARMLESS, "the format w4afp8")
        if values["weight_block_size"] != BLOCK:
            reader.fail(
                f"key 'weight_block_size' is {str(values['weight_block_size'])[:80]}, expected {BLOCK}"
            )
    else:
        if "quantization" in reader.values:
            inner = reader.all(OUTER, (), "the format w4afp8")["quantization"]
            reader = Reader(f"{reader.where}: quantization", inner)
        values = reader.all(MIXED_KEYS, (), "the format w4afp8")
        for name, entry in values["quantized_layers"].items():
            own = Reader(
                f"{reader.where}: quantized_layers {name!r}", entry if isinstance(entry, dict) else {}
            )
            if not isinstance(entry, dict):
                own.fail(f"is {repr(entry)[:80]}, expected an object")
            own.all(LAYER, (), "a quantized layer")
    skipped = tuple(name for key in _SKIPS for name in values.get(key, ()) if name)
    return Settings(fp8.Settings(reader.where, (BLOCK[0], BLOCK[1]), skipped=skipped), values["group_size"])
