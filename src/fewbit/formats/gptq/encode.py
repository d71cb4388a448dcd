"""Canonical tensors as GPTQ writes them: the exact inverse of `decode`."""

from __future__ import annotations

import numpy as np

from fewbit.formats.folder.marlin import pack_marlin, pack_marlin_scales
from fewbit.formats.folder.packing import add_to_words, pack_bits, pack_planes
from fewbit.formats.folder.writer import DiskArray, Shaped
from fewbit.formats.gptq.config import Settings
from fewbit.formats.gptq.decode import planes_of
from fewbit.schemes.arrays import Array
from fewbit.spec.scheme import QuantTensor

_KINDS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def settings_of(tensor: Shaped, version: int = 1, planar: bool = False) -> Settings:
    """ValueError when GPTQ cannot say what the scheme says."""
    scheme = tensor.scheme
    wide = scheme.codes.bits in ((2, 3, 4, 5, 6, 7, 8) if planar else (2, 3, 4, 8))
    form = scheme.zero_point if scheme.codes.kind == "unsigned" else scheme.zero_point is None
    others = (
        scheme.offset
        or scheme.super_scale
        or scheme.global_scale
        or scheme.codebook
        or scheme.mask
        or scheme.family
    )
    if (
        not wide
        or not form
        or others
        or scheme.codes.is_float
        or scheme.granularity.sharing not in ("group", "channel")
    ):
        raise ValueError(f"GPTQ cannot express the scheme {scheme}")
    group_size = scheme.granularity.k if scheme.granularity.sharing == "group" else -1
    return Settings(
        scheme.codes.bits, group_size, scheme.zero_point is None, scheme.group_index, version, planar
    )


def encode(tensor: QuantTensor, settings: Settings) -> dict[str, DiskArray]:
    """qweight, qzeros, scales and g_idx by leaf; B and s of serialized Marlin, which has 4 symmetric bits."""
    scheme, k, bits = tensor.scheme, tensor.shape[1], settings.bits
    middle = 1 << (bits - 1)
    codes, scale = tensor.parts["codes"], tensor.parts["scale"]
    if settings.sym:
        codes = (codes.view(np.uint8) + np.uint8(middle)) & np.uint8((1 << bits) - 1)
        zeros: Array = np.full(scale.shape, middle, np.uint8)
    else:
        zeros = tensor.parts["zero_point"]
    if settings.marlin:
        return {
            "B": DiskArray("I32", pack_marlin(codes)),
            "s": DiskArray("F16", pack_marlin_scales(scale, single=scale.shape[1] == 1)),
        }
    length = k if settings.group_size == -1 else settings.group_size
    index = tensor.parts["group_index"] if scheme.group_index else np.arange(k, dtype=np.int32) // length
    assert scheme.scale is not None
    return {
        "qweight": DiskArray("I32", np.ascontiguousarray(_pack(codes, settings).T)),
        "qzeros": DiskArray("I32", _pack_zeros(np.ascontiguousarray(zeros.T), settings)),
        "scales": DiskArray(_KINDS[scheme.scale.name], np.ascontiguousarray(scale.T)),
        "g_idx": DiskArray("I32", index.astype(np.int32)),
    }


def _pack(codes: Array, settings: Settings) -> Array:
    planes = planes_of(settings)
    words = pack_planes(codes, planes) if planes else pack_bits(codes, settings.bits)
    return words.view(np.int32)


def _pack_zeros(zeros: Array, settings: Settings) -> Array:
    if settings.version == 2:
        return _pack(zeros, settings)
    if 32 % settings.bits == 0:
        return add_to_words(_pack(zeros, settings), settings.bits, -1)
    return _pack((zeros - np.uint8(1)) & np.uint8((1 << settings.bits) - 1), settings)


def config_of(settings: Settings, **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder whose modules are all stored so."""
    stored = "gptq_p" if settings.planar else f"gptq{'_v2' if settings.version == 2 else ''}"
    stored = "marlin" if settings.marlin else stored
    return {
        "quant_method": "gptq", "bits": settings.bits, "group_size": settings.group_size, "sym": settings.sym,
        "desc_act": settings.desc_act, "lm_head": False, "checkpoint_format": stored, "pack_dtype": "int32", **more,
    }  # fmt: skip
