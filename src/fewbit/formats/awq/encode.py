"""Canonical tensors as AWQ's gemm version writes them: the exact inverse of `resolve`."""

from __future__ import annotations

import numpy as np

from fewbit.formats.awq.config import Settings
from fewbit.formats.awq.decode import MIDDLE
from fewbit.formats.folder.packing import AWQ_ORDER, pack_bits, to_order
from fewbit.formats.folder.writer import DiskArray
from fewbit.schemes.arrays import Array
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.scheme import QuantTensor, Scheme

_KINDS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def settings_of(tensor: QuantTensor) -> Settings:
    """ValueError when AWQ cannot say what the scheme says."""
    scheme, n = tensor.scheme, tensor.shape[0]
    signed = scheme.codes.name == "i4"
    shared = scheme.granularity
    size = shared.k if shared.sharing == "group" else -1
    form = Scheme(
        scheme.codes,
        CHANNEL if size == -1 else group(size),
        scale=scheme.scale,
        zero_point=None if signed else scheme.codes,
    )
    if scheme.codes.name not in ("i4", "u4") or scheme != form or n % 8:
        raise ValueError(f"AWQ cannot express the scheme {scheme} over {n} output rows")
    return Settings(size, not signed)


def encode(tensor: QuantTensor, settings: Settings) -> dict[str, DiskArray]:
    """qweight, qzeros and scales by leaf."""
    codes, scale = tensor.parts["codes"], tensor.parts["scale"]
    if settings.zero_point:
        zeros = tensor.parts["zero_point"]
    else:
        codes = (codes.view(np.uint8) + np.uint8(MIDDLE)) & np.uint8(15)
        zeros = np.full(scale.shape, MIDDLE, np.uint8)
    assert tensor.scheme.scale is not None
    return {
        "qweight": DiskArray("I32", _pack(codes)),
        "qzeros": DiskArray("I32", _pack(zeros)),
        "scales": DiskArray(_KINDS[tensor.scheme.scale.name], np.ascontiguousarray(scale.T)),
    }


def _pack(codes: Array) -> Array:
    return pack_bits(to_order(np.ascontiguousarray(codes.T), AWQ_ORDER), 4).view(np.int32)


def config_of(settings: Settings, **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder whose modules are all stored so."""
    return {
        "quant_method": "awq", "bits": 4, "group_size": settings.group_size, "zero_point": settings.zero_point,
        "version": settings.version, "modules_to_not_convert": None, **more,
    }  # fmt: skip
