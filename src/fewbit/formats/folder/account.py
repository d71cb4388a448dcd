"""The proof that a folder's tensors were all spoken for: whole, and each in one place."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from fewbit.formats.checkpoint import Account
from fewbit.formats.folder.resolve import Resolution
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.spec.refusal import CheckpointError


def account(found: Resolution, disk: Mapping[str, DiskTensor]) -> Account:
    """CheckpointError where a tensor is in no place or two, or where some of a stack (an expert) is left out."""
    weights: dict[str, set[tuple[int, ...]]] = {}
    for resolved in found.tensors.values():
        for part in resolved.parts.values():
            for tensor in part.tensors:
                weights.setdefault(tensor.name, set()).add(tensor.index)
    beside = {tensor.name for one in found.auxiliary.values() for tensor in one.part.tensors}
    for name, tensor in disk.items():
        places = (name in weights) + (name in beside) + (name in found.explained)
        if places != 1:
            said = "is taken by nothing" if not places else "is taken in two ways at once"
            raise CheckpointError(f"{tensor.file.path}: tensor {tensor} {said}, expected one use of it")
        cut = weights.get(name, {()})
        depth = len(next(iter(cut)))
        if len(cut) != prod(tensor.shape[:depth]):
            raise CheckpointError(
                f"{tensor.file.path}: tensor {tensor} is used for {len(cut)} of the {prod(tensor.shape[:depth])} matrices that "
                "it holds, expected all"
            )
    return Account(weights.keys(), beside, found.explained)
