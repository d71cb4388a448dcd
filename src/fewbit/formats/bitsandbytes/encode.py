"""Canonical tensors as bitsandbytes writes them. Scales are written as floats, never quantized again."""

from __future__ import annotations

import json

import numpy as np

from fewbit.formats.bitsandbytes.config import METHOD
from fewbit.formats.bitsandbytes.decode import INT8_STEP
from fewbit.formats.bitsandbytes.resolve import STATE
from fewbit.formats.folder.packing import pack_bits, to_order
from fewbit.formats.folder.writer import DiskArray
from fewbit.schemes.arrays import Array
from fewbit.spec.dtype import F32, I8, U4
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.scheme import QuantTensor, Scheme

BLOCK_SIZES = (32, 64, 128, 256, 512, 1024, 2048, 4096)
INT8 = Scheme(I8, CHANNEL, scale=F32)
_NF4 = (
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0,
)  # fmt: skip
_FP4 = (0.0, 0.0625, 8.0, 12.0, 4.0, 6.0, 2.0, 3.0)
CODEBOOKS: dict[str, Array] = {
    "nf4": np.array(_NF4, np.float32),
    "fp4": np.array([*_FP4, *(-v for v in _FP4)], np.float32) / np.float32(12),
}


def quant_type_of(tensor: QuantTensor) -> str:
    """nf4, fp4 or int8; ValueError when bitsandbytes cannot say what the tensor says."""
    if tensor.scheme == INT8:
        return "int8"
    sizes = {Scheme(U4, group(size), scale=F32, codebook=F32): size for size in BLOCK_SIZES}
    if tensor.scheme in sizes:
        for name, codebook in CODEBOOKS.items():
            if np.array_equal(tensor.parts["codebook"], codebook):
                return name
        raise ValueError(f"bitsandbytes cannot express the scheme {tensor.scheme} with a codebook of its own")
    raise ValueError(f"bitsandbytes cannot express the scheme {tensor.scheme}")


def encode(tensor: QuantTensor) -> dict[str, DiskArray]:
    """By leaf."""
    quant_type, scale = quant_type_of(tensor), tensor.parts["scale"]
    if quant_type == "int8":
        return {
            "weight": DiskArray("I8", tensor.parts["codes"]),
            "SCB": DiskArray("F32", _row_maxima(scale.reshape(-1))),
            "weight_format": DiskArray("U8", np.array(0, np.uint8)),
        }
    codes = to_order(tensor.parts["codes"].reshape(1, -1), (1, 0))
    state = {
        "quant_type": quant_type, "blocksize": tensor.scheme.granularity.k, "dtype": "bfloat16", "shape": list(tensor.shape),
    }  # fmt: skip
    return {
        "weight": DiskArray("U8", pack_bits(codes, 4, np.uint8).reshape(-1, 1)),
        "weight.absmax": DiskArray("F32", scale.reshape(-1)),
        "weight.quant_map": DiskArray("F32", tensor.parts["codebook"]),
        f"{STATE}{quant_type}": DiskArray("U8", np.frombuffer(json.dumps(state).encode(), np.uint8)),
    }


def _row_maxima(scale: Array) -> Array:
    """SCB whose product with 1 / 127 is the scale to the bit: it is a neighbour of the quotient, where there is one."""
    scale = np.ascontiguousarray(scale, np.float32)
    near = scale / INT8_STEP
    candidates = np.stack(
        [near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))]
    )
    good = candidates * INT8_STEP == scale
    if not good.any(axis=0).all():
        row = int(np.flatnonzero(~good.any(axis=0))[0])
        raise ValueError(
            f"bitsandbytes cannot express the scale {scale[row]!r} of row {row}: no float over 127 is equal to it"
        )
    out: Array = np.take_along_axis(candidates, good.argmax(axis=0)[None], axis=0)[0]
    return out


def config_of(quant_type: str, double: bool = False, **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder whose modules are all stored so."""
    return {
        "quant_method": METHOD, "load_in_4bit": quant_type != "int8", "load_in_8bit": quant_type == "int8",
        "bnb_4bit_quant_type": "fp4" if quant_type == "int8" else quant_type, "bnb_4bit_use_double_quant": double,
        "bnb_4bit_quant_storage": "uint8", "llm_int8_skip_modules": None, "llm_int8_threshold": 6.0, **more,
    }  # fmt: skip
