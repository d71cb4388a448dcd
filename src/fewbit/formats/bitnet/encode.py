"""Canonical ternary tensors as transformers stores them: the exact inverse of `resolve`."""

from __future__ import annotations

import numpy as np

from fewbit.formats.bitnet.decode import PER_BYTE
from fewbit.formats.folder.writer import DiskArray
from fewbit.schemes.arrays import Array
from fewbit.spec.dtype import I2
from fewbit.spec.granularity import TENSOR
from fewbit.spec.scheme import QuantTensor, Scheme

_KINDS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def check(tensor: QuantTensor) -> None:
    """ValueError when BitNet cannot say what the tensor holds."""
    scheme = tensor.scheme
    if scheme != Scheme(I2, TENSOR, scheme.scale) or str(scheme.scale) not in _KINDS:
        raise ValueError(f"BitNet cannot express the scheme {scheme}")
    if tensor.shape[0] % PER_BYTE:
        raise ValueError(f"BitNet stores four rows in a byte, and {tensor.shape[0]} rows do not fill them")
    if tensor.parts["codes"].min() < -1:
        raise ValueError("BitNet has no code -2")


def encode(tensor: QuantTensor) -> dict[str, DiskArray]:
    """weight and weight_scale of a layer of class autobitlinear, whose scale multiplies."""
    check(tensor)
    (n, k), scale = tensor.shape, tensor.parts["scale"]
    rows = (tensor.parts["codes"] + np.int8(1)).view(np.uint8).reshape(PER_BYTE, n // PER_BYTE, k)
    shifts = np.arange(0, 8, 2, dtype=np.uint8)[:, None, None]
    packed: Array = np.bitwise_or.reduce(rows << shifts, axis=0)
    return {
        "weight": DiskArray("U8", packed),
        "weight_scale": DiskArray(_KINDS[str(tensor.scheme.scale)], scale),
    }


def config_of(**more: object) -> dict[str, object]:
    """The `quantization_config` of a folder whose modules are all stored so."""
    return {
        "quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "offline",
        "modules_to_not_convert": ["lm_head"], **more,
    }  # fmt: skip
