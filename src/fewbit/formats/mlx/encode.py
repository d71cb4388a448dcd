"""Canonical tensors as MLX writes them: the exact inverse of `resolve`."""

from __future__ import annotations

import numpy as np

from fewbit.formats.folder.packing import pack_bits
from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.mlx.config import BITS, DEFAULTS, Settings
from fewbit.formats.mlx.resolve import FLOATS, MODES
from fewbit.spec.dtype import dtype
from fewbit.spec.granularity import group
from fewbit.spec.scheme import QuantTensor, Scheme

_KINDS = {name.lower(): name for name in FLOATS}


def scheme_of(settings: Settings, scale: str = "bf16") -> Scheme:
    """`scale`: the type of affine scales and biases."""
    small = MODES.get(settings.mode)
    if small:
        return Scheme(small.codes, group(settings.group_size), scale=small.scale)
    element = dtype(scale)
    return Scheme(dtype(f"u{settings.bits}"), group(settings.group_size), scale=element, offset=element)


def settings_of(scheme: Scheme) -> Settings:
    """ValueError when MLX cannot say what the scheme says."""
    candidates = [Settings(bits, size, mode) for mode, (size, bits) in DEFAULTS.items() if mode in MODES]
    candidates += [Settings(bits, size) for bits in BITS for size in (32, 64, 128)]
    scale = scheme.scale.name if scheme.scale else ""
    for settings in candidates:
        if scheme == scheme_of(settings, scale if scale in _KINDS else "bf16"):
            return settings
    raise ValueError(f"MLX cannot express the scheme {scheme}")


def encode(tensor: QuantTensor, settings: Settings) -> dict[str, DiskArray]:
    """weight, scales and, where affine, biases by leaf."""
    scale = tensor.scheme.scale
    assert scale is not None
    kind = _KINDS.get(scale.name, "U8")
    out = {
        "weight": DiskArray("U32", pack_bits(tensor.parts["codes"], settings.bits)),
        "scales": DiskArray(kind, np.ascontiguousarray(tensor.parts["scale"])),
    }
    if settings.mode == "affine":
        out["biases"] = DiskArray(kind, np.ascontiguousarray(tensor.parts["offset"]))
    return out


def config_of(settings: Settings, **more: object) -> dict[str, object]:
    """The `quantization` of a folder whose modules are all stored so; `more`: overrides."""
    return {"group_size": settings.group_size, "bits": settings.bits, "mode": settings.mode, **more}
