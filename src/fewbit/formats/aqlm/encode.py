"""Canonical tensors as AQLM writes them: the exact inverse of `decode`."""

from __future__ import annotations

import numpy as np

from fewbit.formats.aqlm.config import Settings
from fewbit.formats.folder.writer import DiskArray
from fewbit.schemes.vector.scheme import aqlm
from fewbit.spec.scheme import QuantTensor

_KINDS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def settings_of(tensor: QuantTensor) -> Settings:
    """ValueError when AQLM cannot say what the scheme says."""
    if tensor.scheme.family.partition("_")[0] != "aqlm":
        raise ValueError(f"AQLM cannot express the scheme {tensor.scheme}")
    books, many, rows, run = tensor.parts["codebook"].shape
    bits = many.bit_length() - 1
    types = tensor.scheme.part_dtypes()
    assert tensor.scheme == aqlm(books, bits, run, rows, codebook=types["codebook"], scale=types["scale"])
    return Settings(books, bits, run, rows)


def encode(tensor: QuantTensor) -> dict[str, DiskArray]:
    """codes, codebooks and scales by leaf."""
    settings, types, parts = settings_of(tensor), tensor.scheme.part_dtypes(), tensor.parts
    codes = parts["codes"].astype(np.int32)
    codes[codes >= 1 << (settings.bits - 1)] -= 1 << settings.bits
    kind, held = ("I8", np.int8) if settings.bits <= 8 else ("I16", np.int16)
    return {
        "codes": DiskArray(kind, codes.astype(held)),
        "codebooks": DiskArray(_KINDS[types["codebook"].name], parts["codebook"]),
        "scales": DiskArray(_KINDS[types["scale"].name], parts["scale"].reshape(-1, 1, 1, 1)),
    }


def config_of(settings: Settings, plain: tuple[str, ...], **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder; `plain`: names of the parameters that are not quantized."""
    return {
        "quant_method": "aqlm", "num_codebooks": settings.books, "nbits_per_codebook": settings.bits,
        "in_group_size": settings.run, "out_group_size": settings.rows,
        "linear_weights_not_to_quantize": list(plain), **more,
    }  # fmt: skip
