"""Folders of 8-bit weights with one scale tensor beside each: w8a8_int8, w8a8_fp8 (by row), blockwise_int8 (by block)."""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.w8a8.config import METHODS, read_settings
from fewbit.formats.w8a8.resolve import W8A8Resolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    found = files.declarations.get("quantization_config")
    return found is not None and found.method in METHODS


def resolver(files: FolderFiles) -> W8A8Resolver:
    return W8A8Resolver(read_settings(files))
