"""What config.json says of a torchao folder: one quantization for all linear layers, and which modules are left out."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.keys import Key
from fewbit.formats.folder.safetensors import read_metadata

METHOD = "torchao"
KEYS: dict[str, Key] = {
    "quant_method": Key("string", required=True, only=(METHOD,)),
    "quant_type": Key("object", required=True),
    "modules_to_not_convert": Key("strings"),
    "include_input_output_embeddings": Key("bool", default=False),
    "untie_embedding_weights": Key("bool", default=False),
}
_ENTRY: dict[str, Key] = {
    "_type": Key("string", required=True),
    "_version": Key("count", default=1, only=(1, 2)),
    "_data": Key("object", required=True),
}
_ENUM: dict[str, Key] = {"_type": Key("string"), "_data": Key("string", required=True)}
_SHARED = frozenset({"granularity", "set_inductor_config", "layout"})
CONFIGS: dict[str, tuple[str, frozenset[str]]] = {
    "Int8WeightOnlyConfig": ("Int8Tensor", _SHARED | {"group_size"}),
    "Int8DynamicActivationInt8WeightConfig": (
        "Int8Tensor", _SHARED | {"act_mapping_type", "reduce_range", "weight_only_decode"},
    ),
    "Float8WeightOnlyConfig": ("Float8Tensor", _SHARED | {"weight_dtype"}),
    "Float8DynamicActivationFloat8WeightConfig": (
        "Float8Tensor",
        _SHARED | {
            "weight_dtype", "activation_dtype", "mm_config", "activation_value_lb", "activation_value_ub",
            "kernel_preference", "packing_format",
        },
    ),
    "IntxWeightOnlyConfig": (
        "IntxUnpackedToInt8Tensor",
        _SHARED | {
            "intx_choose_qparams_algorithm", "intx_packing_format", "mapping_type", "scale_dtype", "weight_dtype",
        },
    ),
}  # fmt: skip
"""Config to the type of tensor that it makes, and its settings. All but `mapping_type` are said again of each tensor."""


@dataclass(frozen=True, slots=True)
class TorchAoConfig:
    """`metadata`: tensor to what its file says of it. `symmetric`: every zero point is 0."""

    where: str
    tensor_type: str
    symmetric: bool
    skipped: tuple[str, ...]
    metadata: dict[str, str]

    def skips(self, module: str) -> str:
        """The entry of `modules_to_not_convert` that is the module's name, or some components of it; "" for none."""
        return next((name for name in self.skipped if f".{name}." in f".{module}."), "")


def read_settings(files: FolderFiles) -> TorchAoConfig:
    declaration = files.declarations["quantization_config"]
    reader = Reader(declaration.where, declaration.values)
    values = reader.all(KEYS, (), f"the format {METHOD}")
    types = values["quant_type"]
    if types.keys() != {"default"} or not isinstance(types["default"], dict):
        reader.fail(f"key 'quant_type' has {str(sorted(types))[:80]}, expected one object 'default'")
    own = Reader(f"{reader.where}: quant_type", types["default"])
    entry = own.all(_ENTRY, (), "a torchao config")
    name, data = entry["_type"], Reader(f"{own.where}: {entry['_type']}", entry["_data"])
    if name not in CONFIGS:
        own.fail(f"is {name!r}, which is not supported (supported: {', '.join(CONFIGS)})")
    tensor_type, known = CONFIGS[name]
    data.all({}, known, name)
    metadata: dict[str, str] = {}
    for file in files.files:
        metadata |= read_metadata(file)
    skipped = tuple(module for module in values["modules_to_not_convert"] or () if module)
    return TorchAoConfig(reader.where, tensor_type, _symmetric(data), skipped, metadata)


def _symmetric(data: Reader) -> bool:
    """Asymmetric weights are intx's alone; what the others call mapping is that of activations."""
    mapping = data.get("mapping_type", Key("any", default="SYMMETRIC"))
    text = mapping
    if isinstance(mapping, dict):
        enum = Reader(f"{data.where}: mapping_type", mapping)
        text = enum.all(_ENUM, (), "a setting of torchao")["_data"]
    if text not in ("SYMMETRIC", "ASYMMETRIC"):
        data.fail(
            f"key 'mapping_type' is {repr(text)[:80]}, which is not supported (supported: SYMMETRIC, ASYMMETRIC)"
        )
    return bool(text == "SYMMETRIC")
