"""AutoAWQ's scaled activations: where the operation before a linear is an activation, nothing of the model can take the scales
of its inputs, so the activation divides by them. `<mlp>.act.scales` f [K] belongs to the linear that reads it.

The linear multiplies its inputs by the reciprocals (`pre_scale`); a method applies that, or refuses the layer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from fewbit.formats.folder.parts import Computed
from fewbit.formats.folder.resolve import Auxiliary, Claim, Explained, Module
from fewbit.formats.folder.safetensors import PLAIN, DiskTensor
from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import widen
from fewbit.spec.dtype import F32

READERS = ("down_proj", "dense_4h_to_h", "c_proj", "fc_out", "fc2")
"""The linear after the activation, in the names of its model: they are siblings."""


def is_activation(module: Module) -> bool:
    return module.leaves.keys() == {"scales"}


def scaled_readers(disk: Mapping[str, DiskTensor]) -> dict[str, DiskTensor]:
    """The scales by the module that reads what they divide; those that are all 1 change nothing and are left out."""
    found: dict[str, DiskTensor] = {}
    for name, tensor in disk.items():
        activation, _, leaf = name.rpartition(".")
        alone = leaf == "scales" and f"{activation}.qweight" not in disk
        if alone and tensor.is_plain and len(tensor.shape) == 1:
            reader = _reader(activation, disk)
            if reader and (widen(tensor.whole(), tensor.dtype) != 1).any():
                found[reader] = tensor
    return found


def activation_claim(module: Module, disk: Mapping[str, DiskTensor]) -> Iterator[Claim]:
    scales = module.need("scales", "a scaled activation", *PLAIN)
    reader = _reader(module.name, disk)
    if not reader:
        module.fail(
            "holds scales alone: its 'qweight' is missing, or it is an activation that divides by them (AutoAWQ's "
            f"ScaledActivation), but none of {', '.join(READERS)} beside it is a quantized linear that reads it"
        )
    values = widen(scales.whole(), scales.dtype)
    if len(scales.shape) != 1 or not np.isfinite(values).all() or not values.all():
        module.wrong(scales, "a vector of finite numbers other than 0, since activations are divided by them")
    if (values == 1).all():
        yield Explained(scales, "every scale is 1")
        return

    def reciprocal(start: int, stop: int) -> Array:
        divided: Array = np.float32(1) / widen(scales.rows(start, stop), scales.dtype)
        return divided

    yield Auxiliary(scales.name, F32, scales.shape, Computed((scales,), reciprocal))


def _reader(activation: str, disk: Mapping[str, DiskTensor]) -> str:
    """Its one sibling that may read it and is quantized, "" where there is none."""
    parent = activation.rpartition(".")[0]
    found = [name for name in (f"{parent}.{reader}" for reader in READERS) if f"{name}.qweight" in disk]
    return found[0] if len(found) == 1 else ""
