"""Canonical tensors as compressed-tensors stores them, and the config that says so."""

from __future__ import annotations

from typing import Any

import numpy as np

from fewbit.formats.folder.packing import pack_bits
from fewbit.formats.folder.scales import divisor_of
from fewbit.formats.folder.writer import DiskArray
from fewbit.schemes.arrays import Array
from fewbit.spec.dtype import E2M1, E2M3, E4M3, E8M0, F32, I8
from fewbit.spec.granularity import group
from fewbit.spec.scheme import QuantTensor, Scheme

_KINDS = {"f32": "F32", "f16": "F16", "bf16": "BF16", "e4m3": "F8_E4M3", "e8m0": "U8"}
NVFP4 = Scheme(E2M1, group(16), E4M3, global_scale=F32)
MXFP4 = Scheme(E2M1, group(32), E8M0)
MXFP6 = Scheme(E2M3, group(32), E8M0)
MXFP8 = Scheme(E4M3, group(32), E8M0)
_MICRO = {
    NVFP4: "nvfp4-pack-quantized",
    MXFP4: "mxfp4-pack-quantized",
    MXFP6: "mxfp6-pack-quantized",
    MXFP8: "mxfp8-quantized",
}


def packing_of(scheme: Scheme, in_bytes: bool = False) -> str:
    """The name of the packing, `in_bytes`: integers unpacked; ValueError when no packing can say what the scheme says."""
    codes, zero = scheme.codes, scheme.zero_point
    by_rows = scheme.granularity.sharing in ("channel", "group")
    if scheme in _MICRO:
        return _MICRO[scheme]
    if _is_one_level(scheme):
        if codes is E4M3 and zero is None and not scheme.group_index:
            return "float-quantized"
        signed = codes.kind == "signed" and 2 <= codes.bits <= 8
        if in_bytes and signed and zero in (None, I8) and not scheme.group_index:
            return "int-quantized"
        unsigned = codes.kind == "unsigned" and 2 <= codes.bits <= 8 and zero == codes
        if not in_bytes and by_rows and (unsigned or (signed and zero is None)):
            return "pack-quantized"
    raise ValueError(
        f"compressed-tensors cannot express the scheme {scheme}{' in bytes' if in_bytes else ''}"
    )


def _is_one_level(scheme: Scheme) -> bool:
    """Nothing but codes, scales of 16 or 32 bits, and perhaps zero points."""
    others = scheme.offset or scheme.super_scale or scheme.global_scale or scheme.codebook or scheme.mask
    scale = scheme.scale is not None and scheme.scale.name in ("f16", "bf16", "f32")
    return not others and not scheme.family and scale and scheme.granularity.sharing != "token"


def encode(tensor: QuantTensor, in_bytes: bool = False) -> dict[str, DiskArray]:
    """All tensors of a module by leaf."""
    scheme, parts = tensor.scheme, tensor.parts
    assert scheme.scale is not None
    packing = packing_of(scheme, in_bytes)
    scale = {"weight_scale": DiskArray(_KINDS[scheme.scale.name], parts["scale"])}
    if packing == "pack-quantized":
        return _packed(tensor) | scale
    if scheme.codes in (E2M1, E2M3):
        packed = {"weight_packed": DiskArray("U8", pack_bits(parts["codes"], scheme.codes.bits, np.uint8))}
        if scheme.global_scale:
            scale["weight_global_scale"] = DiskArray("F32", divisor_of(parts["global_scale"]))
        return packed | scale
    weight = {"weight": DiskArray("F8_E4M3" if scheme.codes is E4M3 else "I8", parts["codes"])}
    if scheme.zero_point:
        weight["weight_zero_point"] = DiskArray("I8", parts["zero_point"])
    return weight | scale


def _packed(tensor: QuantTensor) -> dict[str, DiskArray]:
    scheme, parts, bits = tensor.scheme, tensor.parts, tensor.scheme.codes.bits
    codes: Array = parts["codes"]
    if scheme.codes.kind == "signed":
        codes = (codes.view(np.uint8) + np.uint8(1 << (bits - 1))) & np.uint8((1 << bits) - 1)
    stored = {
        "weight_packed": DiskArray("I32", pack_bits(codes, bits).view(np.int32)),
        "weight_shape": DiskArray("I64", np.array(tensor.shape, np.int64)),
    }
    if scheme.zero_point:
        words = pack_bits(np.ascontiguousarray(parts["zero_point"].T), bits).view(np.int32)
        stored["weight_zero_point"] = DiskArray("I32", np.ascontiguousarray(words.T))
    if scheme.group_index:
        stored["weight_g_idx"] = DiskArray("I32", parts["group_index"])
    return stored


def args_of(scheme: Scheme) -> dict[str, Any]:
    """`weights` of a config group."""
    grain = scheme.granularity
    return {
        "num_bits": scheme.codes.bits, "type": "float" if scheme.codes.is_float else "int", "dynamic": False,
        "symmetric": scheme.zero_point is None, "strategy": "tensor_group" if scheme.global_scale else grain.sharing,
        "group_size": grain.k if grain.sharing == "group" else None, "actorder": "group" if scheme.group_index else None,
        "block_structure": [grain.n, grain.k] if grain.sharing == "block" else None,
    }  # fmt: skip


def config_of(scheme: Scheme, in_bytes: bool = False, **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder whose linear layers are all stored so."""
    packing = packing_of(scheme, in_bytes)
    everything = {
        "targets": ["Linear"],
        "weights": args_of(scheme),
        "input_activations": None,
        "format": packing,
    }
    return {
        "quant_method": "compressed-tensors", "format": packing, "quantization_status": "compressed",
        "config_groups": {"group_0": everything}, "ignore": ["lm_head"], **more,
    }  # fmt: skip
