"""Canonical tensors as Quark writes them: the exact inverse of `weights`."""

from __future__ import annotations

from typing import Any

import numpy as np

from fewbit.formats.folder.packing import AWQ_ORDER, pack_bits, to_order
from fewbit.formats.folder.writer import DiskArray
from fewbit.spec.dtype import E4M3, E8M0, I4
from fewbit.spec.granularity import CHANNEL
from fewbit.spec.scheme import QuantTensor, Scheme

_ELEMENTS = {
    "e4m3": "fp8_e4m3", "i8": "int8", "i4": "int4", "u4": "uint4", "e2m1": "fp4", "e2m3": "fp6_e2m3", "e3m2": "fp6_e3m2",
}  # fmt: skip
_QSCHEMES = {"tensor": "per_tensor", "channel": "per_channel", "group": "per_group"}
_FLOATS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}
_KINDS = {**_FLOATS, "e4m3": "F8_E4M3", "e8m0": "U8", "i8": "I8"}


def spec_of(scheme: Scheme) -> Any:
    """The spec of a weight; ValueError when Quark cannot say what the scheme says."""
    if _is_progressive(scheme):
        return [
            {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "symmetric": True},
            {"dtype": "int4", "qscheme": "per_channel", "symmetric": True, "ch_axis": 0},
        ]
    codes, grain, scale = scheme.codes.name, scheme.granularity, str(scheme.scale)
    known = Scheme(scheme.codes, grain, scheme.scale, scheme.zero_point, global_scale=scheme.global_scale)
    grouped = grain.sharing == "group"
    zero = scheme.zero_point is None or (codes in ("u4", "i8") and scheme.zero_point == scheme.codes)
    small = codes in ("e2m1", "e2m3", "e3m2")
    scales = (
        scheme.scale == E4M3 and codes == "e2m1" and str(scheme.global_scale) in _FLOATS
        if scheme.global_scale is not None
        else scheme.scale == E8M0 or (scale in _FLOATS and not small)
    )
    if (
        scheme != known
        or not (zero and scales)
        or codes not in _ELEMENTS
        or grain.sharing not in _QSCHEMES
        or (not grouped and codes not in ("e4m3", "i8"))
        or (codes in ("i4", "u4") and scheme.scale == E8M0)
        or (codes == "u4" and scheme.zero_point is None)
    ):
        raise ValueError(f"Quark cannot express the scheme {scheme}")
    spec = {
        "dtype": _ELEMENTS[codes], "qscheme": _QSCHEMES[grain.sharing], "group_size": grain.k if grouped else None,
        "symmetric": scheme.zero_point is None, "scale_format": "e8m0" if scheme.scale == E8M0 else "float32",
        "is_dynamic": False,
    }  # fmt: skip
    if scheme.global_scale is None:
        return spec
    return [spec, {"dtype": "fp8_e4m3", "qscheme": "per_tensor", "is_scale_quant": True}]


def encode(tensor: QuantTensor, reordered: bool = True) -> dict[str, DiskArray]:
    """weight, weight_scale, weight_scale_2 and weight_zero_point by leaf."""
    scheme, parts = tensor.scheme, tensor.parts
    spec_of(scheme)
    if _is_progressive(scheme):
        return _progressive(tensor, reordered)
    words = scheme.codes.name in ("i4", "u4")
    shape = {"tensor": (), "channel": (-1,)}.get(scheme.granularity.sharing, parts["scale"].shape)
    scale = np.ascontiguousarray(parts["scale"].T) if words else parts["scale"].reshape(shape)
    leaves = {"weight_scale": DiskArray(_KINDS[str(scheme.scale)], scale)}
    if words:
        leaves["weight"] = _words(parts["codes"], reordered)
    elif scheme.codes.bits < 8:
        leaves["weight"] = DiskArray("U8", pack_bits(parts["codes"], scheme.codes.bits, np.uint8))
    else:
        leaves["weight"] = DiskArray(_KINDS[scheme.codes.name], parts["codes"])
    if scheme.zero_point is not None:
        zeros = parts["zero_point"]
        leaves["weight_zero_point"] = (
            _words(zeros, reordered) if words else DiskArray("I8", zeros.reshape(shape))
        )
    if scheme.global_scale is not None:
        overall = parts["global_scale"].reshape(())
        leaves["weight_scale_2"] = DiskArray(_KINDS[scheme.global_scale.name], overall)
    return leaves


def _is_progressive(scheme: Scheme) -> bool:
    """INT4 by rows under one scale of the tensor."""
    floats = str(scheme.scale) in _FLOATS and str(scheme.global_scale) in _FLOATS
    return floats and scheme == Scheme(I4, CHANNEL, scheme.scale, global_scale=scheme.global_scale)


def _progressive(tensor: QuantTensor, reordered: bool) -> dict[str, DiskArray]:
    scheme, parts, k = tensor.scheme, tensor.parts, tensor.shape[1]
    if k % 8:
        raise ValueError(
            f"Quark stores eight columns of INT4 in a word, and {k} columns are no multiple of that"
        )
    nibbles = parts["codes"].view(np.uint8) & np.uint8(15)
    ordered = to_order(nibbles, AWQ_ORDER) if reordered else nibbles
    return {
        "weight": DiskArray("I32", pack_bits(ordered, 4).view(np.int32)),
        "weight_scale": DiskArray(_KINDS[str(scheme.global_scale)], parts["global_scale"].reshape(())),
        "weight_scale_2": DiskArray(_KINDS[str(scheme.scale)], parts["scale"].reshape(-1)),
    }


def _words(codes: Any, reordered: bool) -> DiskArray:
    """[N, X] as i32 [X, N / 8]."""
    if len(codes) % 8:
        raise ValueError(
            f"Quark stores eight rows of INT4 in a word, and {len(codes)} rows are no multiple of that"
        )
    across = np.ascontiguousarray(codes.T).view(np.uint8) & np.uint8(15)
    ordered = to_order(across, AWQ_ORDER) if reordered else across
    return DiskArray("I32", pack_bits(ordered, 4).view(np.int32))


def config_of(scheme: Scheme, reordered: bool = True, **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder whose modules are all stored so."""
    layer = {"weight": spec_of(scheme), "input_tensors": None, "output_tensors": None, "bias": None}
    return {
        "quant_method": "quark", "global_quant_config": layer, "layer_quant_config": {}, "layer_type_quant_config": {},
        "exclude": ["lm_head"], "algo_config": None, "quant_mode": "eager_mode", "version": "0.13",
        "export": {"pack_method": "reorder" if reordered else "order", "weight_format": "real_quantized"}, **more,
    }  # fmt: skip
