"""BitNet folders of transformers: weights of -1, 0 and 1 with one scale, packed, or made so from plain floats while it runs."""

from __future__ import annotations

from fewbit.formats.bitnet.config import METHOD, read_settings
from fewbit.formats.bitnet.resolve import BitNetResolver
from fewbit.formats.folder.files import FolderFiles

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    found = files.declarations.get("quantization_config")
    return found is not None and found.method == METHOD


def resolver(files: FolderFiles) -> BitNetResolver:
    return BitNetResolver(read_settings(files))
