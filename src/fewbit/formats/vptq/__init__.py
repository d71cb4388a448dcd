"""VPTQ folders: vectors of rows as packed indices into codebooks, columns in an order of their own."""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.vptq.config import read_settings
from fewbit.formats.vptq.resolve import VptqResolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    found = files.declarations.get("quantization_config")
    return found is not None and found.method == "vptq"


def resolver(files: FolderFiles) -> VptqResolver:
    return VptqResolver(read_settings(files))
