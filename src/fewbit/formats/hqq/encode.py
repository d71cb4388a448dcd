"""Canonical tensors as transformers saves HQQ: the exact inverse of `resolve`."""

from __future__ import annotations

import numpy as np

from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.hqq.config import PARAMS, Settings
from fewbit.formats.hqq.decode import PACKING_OF, PACKINGS, Packing, grain_of
from fewbit.schemes.arrays import Array
from fewbit.spec.granularity import TENSOR
from fewbit.spec.scheme import QuantTensor, Scheme

_KINDS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}
_NAMES = {"f32": "torch.float32", "f16": "torch.float16", "bf16": "torch.bfloat16"}


def settings_of(scheme: Scheme, k: int) -> Settings:
    """ValueError when HQQ cannot say what the scheme says. Groups lie along K."""
    grain = scheme.granularity
    same = Scheme(scheme.codes, grain, scheme.scale, zero_point=scheme.scale)
    name = str(scheme.codes)
    if scheme != same or str(scheme.scale) not in _KINDS or name not in [f"u{bits}" for bits in PACKING_OF]:
        raise ValueError(f"HQQ cannot express the scheme {scheme}")
    if grain.sharing not in ("group", "channel", "tensor"):
        raise ValueError(f"HQQ cannot express the scheme {scheme}")
    size = grain.k if grain.sharing == "group" else k
    return Settings(scheme.codes.bits, size, 1, channel_wise=grain != TENSOR)


def encode(tensor: QuantTensor, settings: Settings) -> dict[str, DiskArray]:
    """All leaves of the module."""
    (n, k), scheme = tensor.shape, tensor.scheme
    size = settings.group_size or (k if settings.axis == 1 else n)
    down = settings.axis == 0
    if n * k % size or scheme.granularity != grain_of(settings, size, k):
        raise ValueError(f"HQQ with {settings} cannot express the scheme {scheme}")
    count = n * k // size
    shape: tuple[int, ...] = ((1, count) if down else (count, 1)) if settings.channel_wise else ()
    packing = PACKINGS[PACKING_OF[settings.nbits]]
    grouped = ((size, count) if down else (count, size)) if settings.channel_wise else (n, k)
    words = _pack(tensor.parts["codes"].reshape(grouped), packing)
    kind, element = packing.kind, str(scheme.scale)
    if settings.view_as_float:
        words, kind = words.view(tensor.parts["scale"].dtype), _KINDS[element]
    run = scheme.granularity.k or k  # columns of one canonical value
    position = np.arange(0, n * k, run)
    groups = position % count if down else position // size
    values = {
        role: _stored(tensor.parts[part], groups if settings.channel_wise else np.zeros(1, np.int64)).reshape(
            shape
        )
        for role, part in (("scale", "scale"), ("zero", "zero_point"))
    }
    return {
        "W_q": DiskArray(kind, words),
        **{role: DiskArray(_KINDS[element], value) for role, value in values.items()},
        **_meta(settings, size, (n, k), element),
    }


def _stored(part: Array, groups: Array) -> Array:
    """One value for each group, of those where `groups` says; ValueError where they differ."""
    flat = part.reshape(-1)
    held: Array = np.empty(int(groups.max()) + 1, part.dtype)
    held[groups] = flat
    if not np.array_equal(held[groups], flat):
        raise ValueError("scales that differ within a group of HQQ's cannot be stored")
    return held


def _pack(codes: Array, packing: Packing) -> Array:
    """Codes [rows, width] to words, the first rows in the highest bits."""
    rows = -(-len(codes) // packing.per_word)
    padded = np.zeros((packing.per_word, rows, codes.shape[1]), np.uint32)
    padded.reshape(-1, codes.shape[1])[: len(codes)] = codes
    shifts = np.array([packing.shift(piece) for piece in range(packing.per_word)], np.uint32)
    words = np.bitwise_or.reduce(padded << shifts[:, None, None], axis=0)
    stored: Array = words.view(np.int32) if packing.kind == "I32" else words.astype(np.uint8)
    return stored


def _meta(settings: Settings, size: int, shape: tuple[int, ...], element: str) -> dict[str, DiskArray]:
    nbits: Array = np.array(settings.nbits, np.float32 if settings.nbits % 1 else np.int32)
    packing = PACKING_OF[settings.nbits]
    words = {
        "packing": packing,
        "unpack_view_dtype": "torch.int32" if PACKINGS[packing].kind == "I32" else "torch.uint8",
        "compute_dtype": _NAMES[element],
    }
    flags = {
        "channel_wise": settings.channel_wise, "view_as_float": settings.view_as_float, "quant_scale": False, "quant_zero": False,
        "offload_meta": False, "encoded_state_dict": True, "stores_quant_config": True, "optimize": True,
        "round_zero": settings.nbits == 4,
    }  # fmt: skip
    return {
        "nbits": DiskArray("F32" if settings.nbits % 1 else "I32", nbits),
        "group_size": DiskArray("I32", np.array(size, np.int32)),
        "axis": DiskArray("I32", np.array(settings.axis, np.int32)),
        "shape": DiskArray("I64", np.array(shape, np.int64)),
        **{leaf: DiskArray("U8", np.frombuffer(word.encode(), np.uint8)) for leaf, word in words.items()},
        **{leaf: DiskArray("U8", np.array(flag, np.uint8)) for leaf, flag in flags.items()},
    }


def config_of(settings: Settings, **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder whose modules are all stored so."""
    params = {
        "nbits": settings.nbits, "channel_wise": settings.channel_wise, "group_size": settings.group_size, "optimize": True,
        "round_zero": settings.nbits == 4, "axis": settings.axis, "view_as_float": settings.view_as_float,
    }  # fmt: skip
    made = {PARAMS: params, "scale_quant_params": None, "zero_quant_params": None, "offload_meta": False}
    return {"quant_config": made, "quant_method": "hqq", "skip_modules": ["lm_head"], **more}
