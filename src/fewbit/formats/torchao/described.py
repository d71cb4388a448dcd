"""What the metadata of a safetensors file says of one tensor: a JSON object with its type, settings and the names of its parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.keys import Key
from fewbit.formats.strict_json import parse
from fewbit.spec.dtype import E4M3, I8, DType, dtype
from fewbit.spec.granularity import TENSOR, TOKEN
from fewbit.spec.layer_quant import NO_LAYER_QUANT, InputQuant, LayerQuant

_OUTER: dict[str, Key] = {
    "_type": Key("string", required=True),
    "_data": Key("object", default={}),
    "_tensor_data_names": Key("strings", default=()),
}
_DATA: dict[str, Key] = {"block_size": Key("any", required=True), "dtype": Key("object", required=True)}
TYPES: dict[str, tuple[DType | None, dict[str, Key], frozenset[str]]] = {
    "Int8Tensor": (I8, {"act_quant_kwargs": Key("object"), "reduce_range": Key("bool")}, frozenset()),
    "Float8Tensor": (E4M3, {"act_quant_kwargs": Key("object")}, frozenset({"mm_config", "kernel_preference"})),
    "IntxUnpackedToInt8Tensor": (
        None, {"target_dtype": Key("object", required=True), "activation_quantization": Key("string")}, frozenset(),
    ),
}  # fmt: skip
"""Type to its codes (None: as `target_dtype` says), keys, and keys of how torchao multiplies by it."""
_GRANULARITIES = {"PerRow": TOKEN, "PerTensor": TENSOR}


@dataclass(frozen=True, slots=True)
class Described:
    type: str
    codes: DType
    block: tuple[int, int]
    names: frozenset[str]
    layer: LayerQuant


def read_type(text: str, where: str) -> str:
    outer = _outer(text, where)
    name: str = outer.get("_type", _OUTER["_type"])
    return name


def read_described(text: str, where: str) -> Described:
    outer = _outer(text, where)
    values = outer.all(_OUTER, (), "a torchao tensor")
    name = values["_type"]
    if name not in TYPES:
        outer.fail(f"is a {name!r}, which is not supported (supported: {', '.join(TYPES)})")
    codes, keys, harmless = TYPES[name]
    data = Reader(where, values["_data"])
    found = data.all({**_DATA, **keys}, harmless, f"a torchao {name}")
    block = found["block_size"]
    if (
        not isinstance(block, list)
        or len(block) != 2
        or not all(type(b) is int and 0 < b < 1 << 31 for b in block)
    ):
        data.fail(f"key 'block_size' is {str(block)[:80]}, expected two whole numbers")
    element = codes or _target(data, found["target_dtype"])
    layer = _layer(data, found.get("act_quant_kwargs"), element)
    return Described(name, element, (block[0], block[1]), frozenset(values["_tensor_data_names"]), layer)


def _outer(text: str, where: str) -> Reader:
    value = parse(text.encode(), where)
    reader = Reader(where, value if isinstance(value, dict) else {})
    if not isinstance(value, dict):
        reader.fail(f"is a JSON {type(value).__name__}, expected an object; the checkpoint is broken")
    return reader


def _target(data: Reader, said: dict[str, Any]) -> DType:
    supported = {f"int{bits}": f"i{bits}" for bits in range(1, 9)}
    name = said.get("_data")
    if not isinstance(name, str) or name not in supported:
        data.fail(
            f"key 'target_dtype' is {repr(name)[:80]}, which is not supported (supported: {', '.join(supported)})"
        )
    return dtype(supported[name])


def _layer(data: Reader, kwargs: dict[str, Any] | None, element: DType) -> LayerQuant:
    """How torchao quantizes activations as they come."""
    if kwargs is None:
        return NO_LAYER_QUANT
    inner = kwargs.get("_data")
    said = inner.get("granularity") if isinstance(inner, dict) else None
    kind = said.get("_type") if isinstance(said, dict) else None
    if not isinstance(kind, str) or kind not in _GRANULARITIES:
        data.fail(
            f"key 'act_quant_kwargs' has the granularity {repr(kind)[:80]}, which is not supported (supported: "
            f"{', '.join(_GRANULARITIES)})"
        )
    mapping = inner.get("mapping_type") if isinstance(inner, dict) else None
    mapping = mapping.get("_data") if isinstance(mapping, dict) else mapping
    return LayerQuant(InputQuant(element, _GRANULARITIES[kind], symmetric=mapping != "ASYMMETRIC"))
