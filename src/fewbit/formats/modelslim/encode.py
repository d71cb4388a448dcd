"""Canonical integer tensors as msModelSlim writes them: one value a byte, scale and offset beside it."""

from __future__ import annotations

import numpy as np

from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.modelslim.config import FLOAT
from fewbit.spec.dtype import F32
from fewbit.spec.granularity import CHANNEL
from fewbit.spec.scheme import QuantTensor, Scheme


def kind_of(tensor: QuantTensor) -> str:
    """The type that says what the scheme says; ValueError when there is none."""
    scheme = tensor.scheme
    shared = (
        scheme.granularity if scheme.codes.name == "i4" and scheme.granularity.sharing == "group" else CHANNEL
    )
    zero = scheme.zero_point if scheme.zero_point == F32 else None
    if scheme.codes.name not in ("i8", "i4") or scheme != Scheme(
        scheme.codes, shared, scale=F32, zero_point=zero
    ):
        raise ValueError(f"ModelSlim cannot express the scheme {scheme}")
    return "W8A16" if scheme.codes.name == "i8" else "W4A16"


def encode(tensor: QuantTensor) -> dict[str, DiskArray]:
    """weight, weight_scale and weight_offset by leaf."""
    scale = tensor.parts["scale"]
    offset = tensor.parts.get("zero_point", np.zeros(scale.shape, np.float32))
    return {
        "weight": DiskArray("I8", tensor.parts["codes"]),
        "weight_scale": DiskArray("F32", scale),
        "weight_offset": DiskArray("F32", offset),
    }


def description_of(kinds: dict[str, str], **more: object) -> dict[str, object]:
    """The quant_model_description.json; `kinds` by tensor name."""
    whole = next((kind for kind in kinds.values() if kind != FLOAT), FLOAT)
    return {"model_quant_type": whole, **kinds, **more}
