"""The configuration of compressed-tensors, every key declared: groups of targets, each with what is done to its weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fewbit.formats.compressed_tensors.targets import Target, parse_targets
from fewbit.formats.compressed_tensors.transform import Transform, read_transforms
from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import Declaration, FolderFiles
from fewbit.formats.folder.keys import Key

METHOD = "compressed-tensors"
STORED = (
    "pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized",
    "mxfp6-pack-quantized", "mxfp8-quantized", "marlin-24",
)  # fmt: skip
SPARSE = ("dense", "sparse-24-bitmask", "sparse-bitmask")
KEYS: dict[str, Key] = {
    "quant_method": Key("string", default=METHOD, only=(METHOD,)),
    "format": Key("string", only=(*STORED, *SPARSE, "mixed-precision")),
    "config_groups": Key("object"),
    "ignore": Key("strings", default=()),
    "kv_cache_scheme": Key("object"),
    "sparsity_config": Key("object"),
    "transform_config": Key("object"),
    "moe_sparsity_config": Key("object", only=({},)),
}
HARMLESS = frozenset({"quantization_status", "global_compression_ratio", "version"})
GROUP: dict[str, Key] = {
    "targets": Key("strings", required=True),
    "weights": Key("object"),
    "input_activations": Key("object"),
    "output_activations": Key("object"),
    "format": Key("string", only=STORED),
}
ARGS: dict[str, Key] = {
    "num_bits": Key("count", default=8, only=(2, 3, 4, 5, 6, 7, 8)),
    "type": Key("string", default="int", only=("int", "float")),
    "strategy": Key(
        "string", only=("tensor", "channel", "group", "block", "token", "tensor_group", "attn_head")
    ),
    "group_size": Key("whole"),
    "block_structure": Key("any"),
    "symmetric": Key("bool", default=True),
    "dynamic": Key("any", default=False, only=(True, False, "local")),
    "actorder": Key("any", only=(True, False, "group", "weight", "static", "dynamic")),
    "scale_dtype": Key("string"),
    "zp_dtype": Key("string"),
}
HARMLESS_ARGS = frozenset({"observer", "observer_kwargs"})
SPARSITY: dict[str, Key] = {"format": Key("string", default="dense", only=SPARSE)}
HARMLESS_SPARSITY = frozenset({"targets", "ignore", "global_sparsity", "sparsity_structure", "registry_requires_subclass"})  # fmt: skip


@dataclass(frozen=True, slots=True)
class Args:
    """How weights or activations are quantized. `group_size` 0: no groups; `block` rows x columns.

    `is_ordered`: each column says which group it is in; the orders `weight` and `static` leave it where it stands.
    """

    bits: int
    is_float: bool
    strategy: str
    group_size: int = 0
    block: tuple[int, int] = (0, 0)
    symmetric: bool = True
    dynamic: bool = False
    is_ordered: bool = False


@dataclass(frozen=True, slots=True)
class Group:
    """`stored`: the name of the packing, "" where only the tensors say. `weights` None: only activations are quantized."""

    name: str
    targets: tuple[Target, ...]
    weights: Args | None
    inputs: Args | None
    stored: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    where: str
    groups: tuple[Group, ...] = ()
    ignore: tuple[Target, ...] = ()
    sparse: str = "dense"
    transforms: tuple[Transform, ...] = ()


def find_declaration(files: FolderFiles) -> Declaration | None:
    """`quantization_config` by its method; the older `compression_config` was only ever this format's."""
    declared = files.declarations.get("quantization_config")
    if declared is not None:
        return declared if declared.method == METHOD else None
    old = files.declarations.get("compression_config")
    return old if old is not None and old.method in ("", METHOD) else None


def read_settings(files: FolderFiles) -> Settings:
    declaration = find_declaration(files)
    assert declaration is not None
    reader = Reader(declaration.where, declaration.values)
    twin = files.declarations.get("compression_config", declaration)
    if twin.values != declaration.values:
        reader.fail("differs from compression_config beside it; remove the one that does not fit the weights")
    values = reader.all(KEYS, HARMLESS, f"the format {METHOD}")
    groups = values["config_groups"] or {}
    stored = values["format"] if values["format"] in STORED else ""
    if values["kv_cache_scheme"]:
        read_args(Reader(f"{reader.where}: kv_cache_scheme", values["kv_cache_scheme"]))
    sparsity = Reader(f"{reader.where}: sparsity_config", values["sparsity_config"] or {})
    return Settings(
        reader.where,
        tuple(_group(reader, name, group, stored) for name, group in groups.items()),
        parse_targets(values["ignore"], f"{reader.where}: ignore"),
        sparsity.all(SPARSITY, HARMLESS_SPARSITY, f"the format {METHOD}")["format"],
        read_transforms(f"{reader.where}: transform_config", values["transform_config"] or {}),
    )


def _group(parent: Reader, name: str, group: Any, stored: str) -> Group:
    where = f"{parent.where}: config_groups: {name}"
    if not isinstance(group, dict):
        parent.fail(f"config group {name!r} is {repr(group)[:80]}, expected an object")
    values = Reader(where, group).all(GROUP, (), f"the format {METHOD}")
    weights, inputs, _ = (
        read_args(Reader(f"{where}: {key}", values[key])) if values[key] else None
        for key in ("weights", "input_activations", "output_activations")
    )
    if weights and (weights.dynamic or weights.strategy in ("token", "attn_head")):
        parent.fail(
            f"config group {name!r} has weights that are dynamic or scaled by token, expected neither"
        )
    return Group(name, parse_targets(values["targets"], where), weights, inputs, values["format"] or stored)


def read_args(reader: Reader) -> Args:
    values = reader.all(ARGS, HARMLESS_ARGS, f"the format {METHOD}")
    size, block = values["group_size"] or 0, values["block_structure"] or (0, 0)
    if size < -1 or size >= 1 << 31:
        reader.fail(f"key 'group_size' is {size}, expected -1 or a whole number from 1 to 2^31 - 1")
    strategy = values["strategy"] or ("group" if size > 0 else "channel" if size == -1 else "tensor")
    if strategy in ("group", "tensor_group") and size <= 0:
        reader.fail(f"key 'group_size' is {size or None}, but strategy {strategy!r} needs a length")
    whole = isinstance(block, list | tuple) and len(block) == 2 and all(type(b) is int for b in block)
    if not whole or (strategy == "block" and not all(0 < b < 1 << 31 for b in block)):
        reader.fail(f"key 'block_structure' is {str(block)[:80]}, expected two whole numbers above 0")
    return Args(
        values["num_bits"], values["type"] == "float", strategy, max(size, 0), (block[0], block[1]),
        values["symmetric"], bool(values["dynamic"]), values["actorder"] in (True, "group", "dynamic"),
    )  # fmt: skip
