"""Canonical tensors as AutoRound writes them: integers in GPTQ's or AWQ's packing, FP8, MXFP4, MXFP8 and NVFP4."""

from __future__ import annotations

import numpy as np

from fewbit.formats.auto_round.config import AWQ, FLOATS, FP8, FP8_BLOCKS, GPTQ, METHOD, STORED, Settings
from fewbit.formats.awq import config as awq
from fewbit.formats.awq import encode as awq_encode
from fewbit.formats.folder.packing import pack_bits
from fewbit.formats.folder.scales import divisor_of
from fewbit.formats.folder.writer import DiskArray, Shaped
from fewbit.formats.gptq import config as gptq
from fewbit.formats.gptq import encode as gptq_encode
from fewbit.spec.dtype import E2M1, E4M3, E8M0, F32
from fewbit.spec.granularity import CHANNEL, TENSOR, group
from fewbit.spec.scheme import QuantTensor, Scheme

MXFP4 = Scheme(E2M1, group(32), scale=E8M0)
MXFP8 = Scheme(E4M3, group(32), scale=E8M0)
NVFP4 = Scheme(E2M1, group(16), scale=E4M3, global_scale=F32)
_KINDS = {"f32": "F32", "f16": "F16", "bf16": "BF16"}


def settings_of(tensor: Shaped, packing: str = GPTQ) -> Settings:
    """ValueError when AutoRound cannot say what the scheme says in this packing."""
    scheme = tensor.scheme
    if packing == FLOATS and scheme in (MXFP4, MXFP8):
        return Settings(scheme.codes.bits, 32, True, "mx_fp", FLOATS)
    if packing == FLOATS and scheme == NVFP4:
        return Settings(4, 16, True, "nv_fp", FLOATS)
    whole = scheme.granularity in (TENSOR, CHANNEL) and scheme == Scheme(
        E4M3, scheme.granularity, scheme.scale
    )
    if packing == FP8 and whole and str(scheme.scale) in _KINDS:
        return Settings(8, 0 if scheme.granularity == TENSOR else -1, True, "fp", FP8)
    grain = scheme.granularity
    if packing == FP8_BLOCKS and scheme == Scheme(E4M3, grain, F32) and grain.sharing == "block":
        return Settings(8, 0, True, "fp", FP8_BLOCKS, (grain.n, grain.k))
    if packing == AWQ:
        found = awq_encode.settings_of(tensor)
        return Settings(4, found.group_size, not found.zero_point, "int", AWQ)
    if packing == GPTQ and not scheme.group_index and scheme.codes.bits in STORED[GPTQ]["int"]:
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
    scale = tensor.parts["scale"]
    if settings.packing == FP8:
        return {
            "weight": DiskArray("F8_E4M3", tensor.parts["codes"]),
            "weight_scale": DiskArray(_KINDS[str(tensor.scheme.scale)], scale.reshape(-1)),
        }
    if settings.packing == FP8_BLOCKS:
        return {
            "weight": DiskArray("F8_E4M3", tensor.parts["codes"]),
            "weight_scale_inv": DiskArray("F32", scale),
        }
    if settings.data_type == "mx_fp" and settings.bits == 8:
        return {
            "weight": DiskArray("F8_E4M3", tensor.parts["codes"]),
            "weight_scale": DiskArray("U8", scale),
        }
    packed = {"weight_packed": DiskArray("U8", pack_bits(tensor.parts["codes"], 4, np.uint8))}
    if settings.data_type == "mx_fp":
        return packed | {"weight_scale": DiskArray("U8", scale)}
    overall = DiskArray("F32", divisor_of(tensor.parts["global_scale"]))
    return packed | {"weight_scale": DiskArray("F8_E4M3", scale), "weight_global_scale": overall}


def activations_of(settings: Settings) -> dict[str, object]:
    """Keys of the config that say how the tool quantizes inputs beside these weights."""
    match settings.data_type:
        case "fp" if settings.block:
            return {
                "act_bits": 8, "act_data_type": "fp", "act_group_size": settings.block[1], "act_sym": True, "act_dynamic": True,
                "fmt": "e4m3", "activation_scheme": "dynamic",
            }  # fmt: skip
        case "fp":
            return {
                "act_bits": 8, "act_data_type": "fp", "act_group_size": 0, "act_sym": True, "act_dynamic": False,
                "fmt": "e4m3", "activation_scheme": "static",
            }  # fmt: skip
        case "mx_fp" | "nv_fp":
            kind = "mx_fp" if settings.data_type == "mx_fp" else "nv_fp4_with_static_gs"
            size = settings.group_size
            return {
                "act_bits": settings.bits,
                "act_data_type": kind,
                "act_group_size": size,
                "act_sym": True,
                "act_dynamic": True,
            }
    return {}


def config_of(settings: Settings, **more: object) -> dict[str, object]:
    """The `quantization_config` of a folder whose modules are all stored so."""
    size = list(settings.block) if settings.block else settings.group_size
    return {
        "quant_method": METHOD, "bits": settings.bits, "group_size": size, "sym": settings.sym,
        "data_type": settings.data_type, "packing_format": settings.packing, **more,
    }  # fmt: skip
