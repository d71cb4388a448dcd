"""Hugging Face folders whose weights are plain floats in safetensors: every tensor is taken as it is."""

from __future__ import annotations

from collections.abc import Iterable

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.resolve import Claim, Module, split_name
from fewbit.spec.refusal import CheckpointError

__all__ = ["PlainResolver", "declares", "resolver"]


class PlainResolver:
    signs: frozenset[str] = frozenset()

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        for tensor in module.leaves.values():
            if not tensor.is_plain:
                raise CheckpointError(
                    f"{tensor.file.path}: tensor {tensor.name!r} has dtype {tensor.kind}, expected F32, F16 or BF16, since "
                    "nothing beside the weights declares a quantization; the file that does is missing, or the checkpoint is broken"
                )
        return ()


def declares(files: FolderFiles) -> bool:
    return not files.declarations


def resolver(files: FolderFiles) -> PlainResolver:
    return PlainResolver()
