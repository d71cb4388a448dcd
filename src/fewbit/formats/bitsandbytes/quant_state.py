"""quant_state: a JSON object in the bytes of a tensor, which says how the 4-bit weight beside it is stored."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.formats.folder.config import Reader
from fewbit.formats.folder.keys import Key
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.strict_json import parse
from fewbit.spec.refusal import CheckpointError

MAX_BYTES = 1 << 16
_FLOATS = ("float32", "float16", "bfloat16")
KEYS: dict[str, Key] = {
    "quant_type": Key("string", required=True, only=("nf4", "fp4")),
    "blocksize": Key("count", required=True),
    "shape": Key("any", required=True),
    "dtype": Key("string", required=True, only=_FLOATS),
    "nested_blocksize": Key("count"),
    "nested_dtype": Key("string", default="float32", only=("float32",)),
    "nested_offset": Key("number"),
}


@dataclass(frozen=True, slots=True)
class QuantState:
    """Blocks run over the flat weight, from one row into the next. `nested_blocksize` 0: scales are floats."""

    quant_type: str
    blocksize: int
    n: int
    k: int
    nested_blocksize: int = 0
    nested_offset: float = 0.0


def read_quant_state(tensor: DiskTensor) -> QuantState:
    where = f"{tensor.file.path}: tensor {tensor.name!r}"
    if tensor.bytes > MAX_BYTES:
        raise CheckpointError(
            f"{where} has {tensor.bytes} bytes, expected at most {MAX_BYTES} of JSON; the checkpoint is broken"
        )
    found = parse(tensor.whole().tobytes(), where)
    reader = Reader(where, found if isinstance(found, dict) else {})
    if not isinstance(found, dict):
        reader.fail(f"is a JSON {type(found).__name__}, expected an object; the checkpoint is broken")
    values = reader.all(KEYS, (), "a quant_state")
    shape = values["shape"]
    good = (
        isinstance(shape, list) and len(shape) == 2 and all(type(d) is int and 0 < d < 1 << 31 for d in shape)
    )
    if not good or shape[1] % 2:
        reader.fail(f"key 'shape' is {str(shape)[:80]}, expected rows and an even number of columns")
    nested, offset = values["nested_blocksize"], values["nested_offset"]
    if (nested is None) != (offset is None):
        reader.fail(
            "has one of 'nested_blocksize' and 'nested_offset' without the other, expected both or none"
        )
    return QuantState(
        values["quant_type"], values["blocksize"], shape[0], shape[1], nested or 0, float(offset or 0.0)
    )
