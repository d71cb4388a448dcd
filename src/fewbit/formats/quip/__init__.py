"""QuIP# folders, and those of QuIP-for-all: codes of a lattice in a basis that signs and Hadamard matrices turn."""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.quip.config import METHOD, PARAMS, read_settings
from fewbit.formats.quip.resolve import QuipResolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    found = files.declarations.get("quantization_config")
    return PARAMS in files.declarations or (found is not None and found.method == METHOD)


def resolver(files: FolderFiles) -> QuipResolver:
    return QuipResolver(read_settings(files))
