"""Canonical tensors as FP8 folders hold them: the exact inverse of `resolve`."""

from __future__ import annotations

from fewbit.formats.folder.writer import DiskArray
from fewbit.spec.scheme import QuantTensor, Scheme

_CODES = {"e4m3": "F8_E4M3", "e4m3fnuz": "F8_E4M3FNUZ"}
_SCALES = {"f32": "F32", "f16": "F16", "bf16": "BF16", "e8m0": "F8_E8M0"}


def encode(tensor: QuantTensor) -> dict[str, DiskArray]:
    """weight and weight_scale_inv by leaf."""
    kind = _check(tensor.scheme)
    return {
        "weight": DiskArray(kind, tensor.parts["codes"]),
        "weight_scale_inv": DiskArray(_SCALES[str(tensor.scheme.scale)], tensor.parts["scale"]),
    }


def config_of(scheme: Scheme, **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder whose modules are all stored so."""
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
    grain = scheme.granularity
    plain = Scheme(scheme.codes, grain, scheme.scale)
    grouped = grain.sharing == "group" and (grain.k != 32 or str(scheme.scale) != "e8m0")
    if scheme != plain or scheme.codes.name not in _CODES or str(scheme.scale) not in _SCALES or grouped:
        raise ValueError(f"an FP8 folder cannot express the scheme {scheme}")
    return _CODES[scheme.codes.name]
