"""Canonical tensors as AutoRound writes them: integers in GPTQ's or AWQ's packing, and MXFP4."""

from __future__ import annotations

import numpy as np

from fewbit.formats.auto_round.config import AWQ, FLOATS, GPTQ, METHOD, STORED, Settings
from fewbit.formats.awq import config as awq
from fewbit.formats.awq import encode as awq_encode
from fewbit.formats.folder.packing import pack_bits
from fewbit.formats.folder.writer import DiskArray, Shaped
from fewbit.formats.gptq import config as gptq
from fewbit.formats.gptq import encode as gptq_encode
from fewbit.spec.dtype import E2M1, E8M0
from fewbit.spec.granularity import group
from fewbit.spec.scheme import QuantTensor, Scheme

MXFP4 = Scheme(E2M1, group(32), scale=E8M0)


def settings_of(tensor: Shaped, packing: str = GPTQ) -> Settings:
    """ValueError when AutoRound cannot say what the scheme says in this packing."""
    scheme = tensor.scheme
    if packing == FLOATS and scheme == MXFP4:
        return Settings(4, 32, True, "mx_fp", FLOATS)
    if packing == AWQ:
        found = awq_encode.settings_of(tensor)
        return Settings(4, found.group_size, not found.zero_point, "int", AWQ)
    if packing == GPTQ and not scheme.group_index and scheme.codes.bits in STORED[GPTQ][1]:
        of = gptq_encode.settings_of(tensor)
        return Settings(of.bits, of.group_size, of.sym, "int", GPTQ)
    raise ValueError(f"AutoRound cannot express the scheme {scheme} in the packing {packing}")


def encode(tensor: QuantTensor, settings: Settings) -> dict[str, DiskArray]:
    """Arrays by leaf; integers without g_idx."""
    if settings.packing == AWQ:
        return awq_encode.encode(tensor, awq.Settings(settings.group_size, not settings.sym))
    if settings.packing == GPTQ:
        as_gptq = gptq.Settings(settings.bits, settings.group_size, settings.sym, version=1)
        leaves = gptq_encode.encode(tensor, as_gptq)
        return {leaf: array for leaf, array in leaves.items() if leaf != "g_idx"}
    return {
        "weight_packed": DiskArray("U8", pack_bits(tensor.parts["codes"], 4, np.uint8)),
        "weight_scale": DiskArray("U8", tensor.parts["scale"]),
    }


def config_of(settings: Settings, **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder whose modules are all stored so."""
    return {
        "quant_method": METHOD, "bits": settings.bits, "group_size": settings.group_size, "sym": settings.sym,
        "data_type": settings.data_type, "packing_format": settings.packing, **more,
    }  # fmt: skip
