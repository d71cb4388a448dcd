"""Folders of compressed-tensors (llm-compressor and its older forms): one config for packed, integer, float and sparse weights."""

from __future__ import annotations

from fewbit.formats.compressed_tensors.config import find_declaration, read_settings
from fewbit.formats.compressed_tensors.resolve import CompressedResolver
from fewbit.formats.folder.files import FolderFiles

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    return find_declaration(files) is not None


def resolver(files: FolderFiles) -> CompressedResolver:
    return CompressedResolver(read_settings(files), files.tensors)
