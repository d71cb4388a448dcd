"""Canonical tensors as ModelOpt writes them: the exact inverse of `weights`."""

from __future__ import annotations

import numpy as np

from fewbit.formats.folder.packing import pack_bits
from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.modelopt.decode import pack_row_pairs
from fewbit.spec.dtype import E4M3, E8M0
from fewbit.spec.granularity import CHANNEL, TENSOR, block
from fewbit.spec.scheme import QuantTensor, Scheme

_FLOATS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}
_KINDS = {**_FLOATS, "e4m3": "F8_E4M3", "e8m0": "U8", "i8": "I8"}


def algorithm_of(scheme: Scheme) -> str:
    """ValueError when ModelOpt cannot say what the scheme says."""
    grain, scale, codes = scheme.granularity, str(scheme.scale), scheme.codes.name
    known = Scheme(scheme.codes, grain, scheme.scale, global_scale=scheme.global_scale)
    grouped = grain.k if grain.sharing == "group" else 0
    if scheme == known and scheme.global_scale is not None:
        if (
            (codes, scheme.scale) == ("e2m1", E4M3)
            and grouped in (16, 32)
            and str(scheme.global_scale) in _FLOATS
        ):
            return "NVFP4" if grouped == 16 else "W4A8_NVFP4_FP8"
    elif scheme == known and scheme.scale == E8M0 and grouped == 32 and codes in ("e4m3", "e2m1"):
        return "MXFP8" if codes == "e4m3" else "W4A8_MXFP4_FP8"
    elif scheme == known and scale in _FLOATS:
        if codes == "i4" and grouped:
            return "W4A16_AWQ"
        forms = {TENSOR: "FP8", CHANNEL: "FP8_PER_CHANNEL_PER_TOKEN", block(128, 128): "FP8_PB_WO"}
        if codes == "e4m3" and grain in forms:
            return forms[grain]
        if codes == "i8" and grain == CHANNEL:
            return "W8A16"
    raise ValueError(f"ModelOpt cannot express the scheme {scheme}")


def encode(tensor: QuantTensor) -> dict[str, DiskArray]:
    """weight, weight_scale and weight_scale_2 by leaf."""
    scheme, codes, scale = tensor.scheme, tensor.parts["codes"], tensor.parts["scale"]
    algorithm_of(scheme)
    match scheme.codes.name:
        case "e2m1":
            weight = DiskArray("U8", pack_bits(codes, 4, np.uint8))
        case "i4":
            if tensor.shape[0] % 2:
                raise ValueError(
                    f"ModelOpt stores two rows of INT4 in a byte, and {tensor.shape[0]} rows are odd"
                )
            weight = DiskArray("U8", pack_row_pairs(codes))
        case name:
            weight = DiskArray(_KINDS[name], codes)
    shapes = {"tensor": (), "channel": (-1,), "block": (scale.shape[0], 1, scale.shape[-1], 1)}
    stored = scale.reshape(shapes.get(scheme.granularity.sharing, scale.shape))
    leaves = {"weight": weight, "weight_scale": DiskArray(_KINDS[str(scheme.scale)], stored)}
    if scheme.global_scale is not None:
        overall = tensor.parts["global_scale"].reshape(())
        leaves["weight_scale_2"] = DiskArray(_KINDS[scheme.global_scale.name], overall)
    return leaves


def config_of(scheme: Scheme, **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder whose modules are all stored so."""
    size = {"group_size": scheme.granularity.k} if scheme.granularity.sharing == "group" else {}
    made: dict[str, object] = {"quant_method": "modelopt", "quant_algo": algorithm_of(scheme), **size}
    return {**made, "ignore": ["lm_head"], "producer": {"name": "modelopt", "version": "0.47.0"}, **more}
