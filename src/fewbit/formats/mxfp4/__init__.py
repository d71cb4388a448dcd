"""MXFP4 folders of gpt-oss: experts stacked in blocks of 32, gate and up rows interleaved."""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.mxfp4.config import read_settings
from fewbit.formats.mxfp4.resolve import Mxfp4Resolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    found = files.declarations.get("quantization_config")
    return found is not None and found.method == "mxfp4"


def resolver(files: FolderFiles) -> Mxfp4Resolver:
    return Mxfp4Resolver(read_settings(files))
