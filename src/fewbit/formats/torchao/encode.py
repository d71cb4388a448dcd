"""Canonical tensors as torchao takes its own apart: parts by leaf, and the text that describes them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.torchao.config import METHOD
from fewbit.formats.torchao.resolve import QDATA, SCALE, ZERO
from fewbit.spec.dtype import E4M3, I8
from fewbit.spec.scheme import QuantTensor, Scheme

_KINDS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def tensor_type_of(scheme: Scheme) -> str:
    """ValueError when torchao cannot say what the scheme says."""
    sharing, codes = scheme.granularity.sharing, scheme.codes
    plain_form = scheme == Scheme(codes, scheme.granularity, scheme.scale, scheme.zero_point)
    if plain_form and scheme.scale is not None and scheme.scale.name in _KINDS:
        if codes == E4M3 and scheme.zero_point is None and sharing in ("channel", "tensor", "block"):
            return "Float8Tensor"
        if codes == I8 and scheme.zero_point is None and sharing in ("channel", "tensor"):
            return "Int8Tensor"
        if (
            codes.kind == "signed"
            and codes.bits <= 8
            and scheme.zero_point in (None, I8)
            and sharing in ("group", "channel")
        ):
            return "IntxUnpackedToInt8Tensor"
    raise ValueError(f"torchao cannot express the scheme {scheme}")


def block_of(tensor: QuantTensor) -> list[int]:
    n, k = tensor.shape
    granularity = tensor.scheme.granularity
    return {"channel": [1, k], "tensor": [n, k], "group": [1, granularity.k]}.get(
        granularity.sharing, [granularity.n, granularity.k]
    )


def encode(tensor: QuantTensor) -> tuple[dict[str, DiskArray], str]:
    """Parts by leaf, and the metadata of `<module>.weight`."""
    name, block, scheme = tensor_type_of(tensor.scheme), block_of(tensor), tensor.scheme
    (n, k), scale = tensor.shape, tensor.parts["scale"]
    if n % block[0] or k % block[1]:
        raise ValueError(f"torchao cannot express a last block that is not whole: {scheme} of shape {[n, k]}")
    shape = (n // block[0], k // block[1])
    assert scheme.scale is not None
    out = {
        QDATA: DiskArray("F8_E4M3" if scheme.codes.is_float else "I8", tensor.parts["codes"]),
        SCALE: DiskArray(_KINDS[scheme.scale.name], scale.reshape(shape)),
    }
    if not scheme.codes.is_float:
        zeros = tensor.parts.get("zero_point", np.zeros(shape, np.int8))
        out[ZERO] = DiskArray("I8", zeros.reshape(shape))
    data: dict[str, Any] = {"block_size": block, "dtype": {"_type": "torch.dtype", "_data": "bfloat16"}}
    if name == "IntxUnpackedToInt8Tensor":
        data |= {
            "target_dtype": {"_type": "torch.dtype", "_data": f"int{scheme.codes.bits}"},
            "activation_quantization": None,
        }
    else:
        data["act_quant_kwargs"] = None
    parts = [leaf.removeprefix("_weight_") for leaf in out]
    return out, json.dumps({"_type": name, "_data": data, "_tensor_data_names": parts})


def config_of(scheme: Scheme, **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder whose modules are all stored so."""
    configs = {"Int8Tensor": "Int8WeightOnlyConfig", "Float8Tensor": "Float8WeightOnlyConfig"}
    data: dict[str, object] = {}
    if (name := configs.get(tensor_type_of(scheme), "IntxWeightOnlyConfig")) == "IntxWeightOnlyConfig":
        mapping = "SYMMETRIC" if scheme.zero_point is None else "ASYMMETRIC"
        data = {"mapping_type": {"_type": "MappingType", "_data": mapping}}
    return {
        "quant_method": METHOD, "quant_type": {"default": {"_type": name, "_version": 2, "_data": data}},
        "modules_to_not_convert": ["lm_head"], "include_input_output_embeddings": False, **more,
    }  # fmt: skip
