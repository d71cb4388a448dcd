"""Canonical experts as W4AFP8 stores them: the exact inverse of `resolve`. FP8 layers are those of the format fp8."""

from __future__ import annotations

import numpy as np

from fewbit.formats.folder.packing import pack_bits
from fewbit.formats.folder.writer import DiskArray
from fewbit.schemes.arrays import Array
from fewbit.spec.dtype import I4
from fewbit.spec.scheme import QuantTensor, Scheme

_KINDS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def encode(tensor: QuantTensor, input_scale: Array) -> dict[str, DiskArray]:
    """The three leaves of an expert's projection; `input_scale`: one f32 number. ValueError for another scheme."""
    scheme = tensor.scheme
    if (
        scheme != Scheme(I4, scheme.granularity, scheme.scale)
        or scheme.granularity.sharing != "group"
        or str(scheme.scale) not in _KINDS
        or tensor.shape[1] % 2
    ):
        raise ValueError(f"W4AFP8 cannot express the scheme {scheme}")
    codes = tensor.parts["codes"].view(np.uint8) & np.uint8(15)
    return {
        "weight": DiskArray("I8", pack_bits(codes, 4, np.uint8).view(np.int8)),
        "weight_scale_inv": DiskArray(_KINDS[str(scheme.scale)], tensor.parts["scale"]),
        "input_scale": DiskArray("F32", input_scale.astype(np.float32)),
    }


def config_of(group_size: int = 128, **more: object) -> dict[str, object]:
    return {
        "quant_method": "w4afp8", "fmt": "e4m3", "activation_scheme": "dynamic", "moe_activation_scheme": "static",
        "weight_block_size": [128, 128], "group_size": group_size, **more,
    }  # fmt: skip
