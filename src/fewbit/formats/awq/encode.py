"""Canonical tensors as each version of AWQ writes them: the exact inverse of `resolve` and `gemv`."""

from __future__ import annotations

import numpy as np

from fewbit.formats.awq.config import Settings
from fewbit.formats.awq.decode import MIDDLE
from fewbit.formats.awq.gemv import INTERLEAVE, STRIDE, shuffle, width_of
from fewbit.formats.folder.marlin import ACROSS, TILE, pack_marlin, pack_marlin_scales
from fewbit.formats.folder.packing import AWQ_ORDER, pack_bits, to_order
from fewbit.formats.folder.writer import DiskArray, Shaped
from fewbit.schemes.arrays import Array
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.scheme import QuantTensor, Scheme

_KINDS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def settings_of(tensor: Shaped, version: str = "gemm") -> Settings:
    """ValueError when this version of AWQ cannot say what the scheme says."""
    scheme, (n, k) = tensor.scheme, tensor.shape
    if scheme.scale is None:
        raise ValueError(f"AWQ ({version}) cannot express the scheme {scheme}")
    fast = version == "gemv_fast"
    signed = scheme.codes.name == "i4"
    shared = scheme.granularity
    size = shared.k if shared.sharing == "group" else -1
    form = Scheme(
        scheme.codes,
        CHANNEL if size == -1 else group(size),
        scale=scheme.scale,
        zero_point=None if signed or fast else scheme.codes,
        offset=scheme.offset if fast else None,
    )
    known = (
        scheme.codes.name == "u4" and scheme.offset is not None if fast else scheme.codes.name in ("i4", "u4")
    )
    tiles = signed and n % ACROSS == 0 and k % TILE == 0
    whole = {
        "marlin": tiles,
        "gemm": n % 8 == 0,
        "gemv": k % 8 == 0,
        "gemv_fast": n % INTERLEAVE == 0 and k % STRIDE == 0,
    }
    if not known or scheme != form or not whole[version]:
        raise ValueError(f"AWQ ({version}) cannot express the scheme {scheme} over {n} x {k}")
    return Settings(size, not signed, version)


def encode(tensor: QuantTensor, settings: Settings) -> dict[str, DiskArray]:
    """qweight, qzeros and scales by leaf."""
    codes, scale = tensor.parts["codes"], tensor.parts["scale"]
    if settings.version == "gemv_fast":
        offset, of = tensor.parts["offset"], tensor.scheme.offset
        assert of is not None
        return {
            "qweight": DiskArray("I16", shuffle(codes).view(np.int16)),
            "qzeros": DiskArray(_KINDS[of.name], _filled(offset, tensor).T.copy()),
            "scales": DiskArray(_KINDS[_scale(tensor)], _filled(scale, tensor).T.copy()),
        }
    if settings.zero_point:
        zeros = tensor.parts["zero_point"]
    else:
        codes = (codes.view(np.uint8) + np.uint8(MIDDLE)) & np.uint8(15)
        zeros = np.full(scale.shape, MIDDLE, np.uint8)
    if settings.version == "marlin":
        single = settings.group_size in (-1, tensor.shape[1])
        return {
            "qweight": DiskArray("I32", pack_marlin(codes)),
            "scales": DiskArray(_KINDS[_scale(tensor)], pack_marlin_scales(scale, single)),
        }
    if settings.version == "gemv":
        return {
            "qweight": DiskArray("I32", pack_bits(codes, 4).view(np.int32)),
            "qzeros": DiskArray("I32", pack_bits(_filled(zeros, tensor), 4).view(np.int32)),
            "scales": DiskArray(_KINDS[_scale(tensor)], _filled(scale, tensor)),
        }
    return {
        "qweight": DiskArray("I32", _pack(codes)),
        "qzeros": DiskArray("I32", _pack(zeros)),
        "scales": DiskArray(_KINDS[_scale(tensor)], np.ascontiguousarray(scale.T)),
    }


def _scale(tensor: QuantTensor) -> str:
    assert tensor.scheme.scale is not None
    return tensor.scheme.scale.name


def _filled(part: Array, tensor: QuantTensor) -> Array:
    """[N, groups] with zeros up to whole words of zero points."""
    (n, groups), k = part.shape, tensor.shape[1]
    out = np.zeros((n, width_of(k, k // groups) * 8), part.dtype)
    out[:, :groups] = part
    return out


def _pack(codes: Array) -> Array:
    return pack_bits(to_order(np.ascontiguousarray(codes.T), AWQ_ORDER), 4).view(np.int32)


def config_of(settings: Settings, **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder whose modules are all stored so."""
    return {
        "quant_method": "awq", "bits": 4, "group_size": settings.group_size, "zero_point": settings.zero_point,
        "version": settings.version, "modules_to_not_convert": None, **more,
    }  # fmt: skip
