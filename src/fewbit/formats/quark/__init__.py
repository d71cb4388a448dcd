"""Quark folders of AMD: FP8, INT8, INT4, MXFP4, MXFP6, MXFP8 and NVFP4, with specs by layer name and type."""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.quark.config import read_settings
from fewbit.formats.quark.resolve import QuarkResolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    found = files.declarations.get("quantization_config")
    return found is not None and found.method == "quark"


def resolver(files: FolderFiles) -> QuarkResolver:
    return QuarkResolver(read_settings(files))
