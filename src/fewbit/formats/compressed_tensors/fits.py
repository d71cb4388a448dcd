"""Whether a module's tensors are what a group stores: it decides where several groups name the module alike."""

from __future__ import annotations

from fewbit.formats.compressed_tensors.config import Group
from fewbit.formats.folder.resolve import Module

WORDS = ("I32", "U32")


def fits(module: Module, group: Group) -> bool:
    """By names and types alone; a group of activations, or one in a packing of other leaves, fits what it does not know."""
    args, packed, weight = group.weights, module.leaves.get("weight_packed"), module.leaves.get("weight")
    if args is None or group.stored == "marlin-24" or (packed is None and weight is None):
        return True
    if packed is None:
        assert weight is not None
        in_bytes = group.stored == "" or not group.stored.endswith("pack-quantized")
        return in_bytes and weight.kind == ("F8_E4M3" if args.is_float else "I8")
    if group.stored and not group.stored.endswith("pack-quantized"):
        return False
    if not args.is_float:
        return packed.kind in WORDS
    return packed.kind == "U8" and ("weight_global_scale" in module.leaves) == (args.group_size == 16)
