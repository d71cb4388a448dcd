"""Canonical tensors as VPTQ writes them: the exact inverse of `decode`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.vptq.decode import pack_fields
from fewbit.schemes.arrays import Array
from fewbit.spec.scheme import QuantTensor

_KINDS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def layer_of(tensor: QuantTensor) -> dict[str, Any]:
    """The entry of config_for_layers; ValueError when VPTQ cannot say what the scheme says."""
    if not tensor.scheme.family.startswith("vptq_"):
        raise ValueError(f"VPTQ cannot express the scheme {tensor.scheme}")
    parts, (n, k) = tensor.parts, tensor.shape
    groups, many, rows = parts["codebook"].shape
    outliers, others = (
        parts[role].shape if role in parts else (-1, -1) for role in ("outlier_codes", "outlier_codebook")
    )
    return {
        "vector_lens": [others[1], rows], "num_centroids": [others[0], many],
        "num_res_centroids": [-1, parts["residual_codebook"].shape[1] if "residual_codebook" in parts else -1],
        "group_num": groups, "group_size": parts["codes"].shape[1] // groups, "outlier_size": max(outliers[1], 0),
        "in_features": k, "out_features": n, "enable_norm": "column_scale" in parts, "enable_perm": "column_order" in parts,
        "indices_as_float": False, "is_indice_packed": True, "bias": False,
    }  # fmt: skip


def encode(tensor: QuantTensor) -> dict[str, DiskArray]:
    """Arrays by leaf."""
    layer, parts, types = layer_of(tensor), tensor.parts, tensor.scheme.part_dtypes()
    kind, groups = _KINDS[types["codebook"].name], layer["group_num"]
    wide = (parts["codebook"].shape[1] - 1).bit_length()
    fields, bits = parts["codes"].astype(np.uint64), wide
    leaves = {"centroids.weight": _book(kind, parts["codebook"])}
    if "residual_codes" in parts:
        bits += (parts["residual_codebook"].shape[1] - 1).bit_length()
        fields = fields | parts["residual_codes"].astype(np.uint64) << np.uint64(wide)
        leaves["res_centroids.weight"] = _book(kind, parts["residual_codebook"])
    packed = np.stack([pack_fields(columns, bits) for columns in np.split(fields, groups, axis=1)])
    leaves["indices"] = DiskArray("I32", packed.view(np.int32))
    if "outlier_codes" in parts:
        leaves["outlier_indices"] = DiskArray("I16", parts["outlier_codes"][None].view(np.int16))
        leaves["outlier_centroids.weight"] = _book(kind, parts["outlier_codebook"][None])
    if "column_order" in parts:
        perm = np.argsort(parts["column_order"]).astype(np.uint16)
        leaves["perm"] = DiskArray("I16", perm.view(np.int16))
    if "column_scale" in parts:
        for leaf, role in (("weight_scale", "column_scale"), ("weight_bias", "column_offset")):
            leaves[leaf] = DiskArray(_KINDS[types[role].name], parts[role])
    return leaves


def _book(kind: str, book: Array) -> DiskArray:
    return DiskArray(kind, book.reshape(len(book), -1))


def config_of(layers: dict[str, dict[str, Any]], **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder; `layers` by module."""
    return {"quant_method": "vptq", "config_for_layers": layers, "shared_layer_config": {}, **more}
