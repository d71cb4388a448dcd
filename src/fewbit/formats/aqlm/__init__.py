"""AQLM folders: codes, codebooks and scales beside each quantized module."""

from __future__ import annotations

from fewbit.formats.aqlm.config import read_settings
from fewbit.formats.aqlm.resolve import AqlmResolver
from fewbit.formats.folder.files import FolderFiles

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    found = files.declarations.get("quantization_config")
    return found is not None and found.method == "aqlm"


def resolver(files: FolderFiles) -> AqlmResolver:
    return AqlmResolver(read_settings(files))
