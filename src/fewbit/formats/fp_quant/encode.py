"""Canonical tensors as FP-Quant stores them: the exact inverse of `resolve`."""

from __future__ import annotations

import numpy as np

from fewbit.formats.folder.packing import pack_bits
from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.fp_quant.config import METHOD, Settings
from fewbit.formats.fp_quant.resolve import BACKWARD, FORWARD, SCHEMES
from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import narrow, widen
from fewbit.spec.dtype import BF16
from fewbit.spec.scheme import QuantTensor


def encode(tensor: QuantTensor, rotation: Array) -> dict[str, DiskArray]:
    """All leaves. `rotation`: R of R x, f32 [h, h]. ValueError when FP-Quant cannot say what the tensor holds."""
    if tensor.scheme not in SCHEMES.values():
        raise ValueError(f"FP-Quant cannot express the scheme {tensor.scheme}")
    overall = tensor.parts["global_scale"]
    divisor = narrow(np.float32(1) / overall, BF16)
    if np.float32(1) / widen(divisor, BF16) != overall:
        raise ValueError(
            f"the global scale {overall[0]} is no reciprocal of a BF16 number, which FP-Quant stores"
        )
    stored = DiskArray("BF16", narrow(np.ascontiguousarray(rotation.T), BF16))
    return {
        "qweight": DiskArray("U8", pack_bits(tensor.parts["codes"], 4, np.uint8)),
        "scales": DiskArray("U8", tensor.parts["scale"]),
        "weight_global_scale": DiskArray("BF16", divisor),
        "act_global_scale": DiskArray("BF16", divisor),
        FORWARD: stored,
        BACKWARD: stored,
    }


def config_of(settings: Settings, **more: object) -> dict[str, object]:
    return {
        "quant_method": METHOD, "forward_dtype": settings.element, "forward_method": "abs_max", "backward_dtype": "bf16",
        "store_master_weights": False, "hadamard_group_size": settings.rotated, "pseudoquantization": settings.plain,
        "transform_init": "hadamard", "modules_to_not_convert": list(settings.skipped), **more,
    }  # fmt: skip
