"""Canonical tensors as FP8 folders hold them: the exact inverse of `resolve`."""

from __future__ import annotations

import numpy as np

from fewbit.formats.folder.packing import pack_bits
from fewbit.formats.folder.writer import DiskArray
from fewbit.spec.dtype import E2M1, E8M0
from fewbit.spec.granularity import group
from fewbit.spec.scheme import QuantTensor, Scheme

FP4 = Scheme(E2M1, group(32), E8M0)
"""Of experts, where expert_dtype is fp4."""
_CODES = {"e4m3": "F8_E4M3", "e4m3fnuz": "F8_E4M3FNUZ"}
_SCALES = {"f32": "F32", "f16": "F16", "bf16": "BF16", "e8m0": "F8_E8M0"}


def encode(tensor: QuantTensor) -> dict[str, DiskArray]:
    """weight and weight_scale_inv by leaf."""
    kind, codes = _check(tensor.scheme), tensor.parts["codes"]
    packed = tensor.scheme == FP4
    return {
        "weight": DiskArray(kind, pack_bits(codes, 4, np.uint8).view(np.int8) if packed else codes),
        "weight_scale_inv": DiskArray(_SCALES[str(tensor.scheme.scale)], tensor.parts["scale"]),
    }


def config_of(scheme: Scheme, **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder whose modules are all stored so, but FP4 experts, which stand beside others."""
    if scheme == FP4:
        raise ValueError(
            "an FP8 folder has FP4 experts beside FP8 layers, give the scheme of those and expert_dtype='fp4'"
        )
    _check(scheme)
    grain = scheme.granularity
    sizes = {"block": {"weight_block_size": [grain.n, grain.k]}, "group": {"weight_block_size": [1, grain.k]}}
    method = "mxfp8" if grain.sharing == "group" else "fp8"
    return {
        "quant_method": method,
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        **sizes.get(grain.sharing, {}),
        **more,
    }


def _check(scheme: Scheme) -> str:
    """ValueError when the format cannot say what the scheme says."""
    if scheme == FP4:
        return "I8"
    grain = scheme.granularity
    plain = Scheme(scheme.codes, grain, scheme.scale)
    grouped = grain.sharing == "group" and (grain.k != 32 or str(scheme.scale) != "e8m0")
    if scheme != plain or scheme.codes.name not in _CODES or str(scheme.scale) not in _SCALES or grouped:
        raise ValueError(f"an FP8 folder cannot express the scheme {scheme}")
    return _CODES[scheme.codes.name]
