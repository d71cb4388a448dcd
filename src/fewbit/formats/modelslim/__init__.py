"""Folders of msModelSlim for Ascend: a description beside the weights names the type of every tensor."""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.modelslim.config import find_declarations, read_description
from fewbit.formats.modelslim.resolve import ModelSlimResolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    return bool(find_declarations(files))


def resolver(files: FolderFiles) -> ModelSlimResolver:
    return ModelSlimResolver(read_description(files))
