"""bitsandbytes folders: NF4 and FP4 in flat blocks, their scales quantized again or not, and LLM.int8()."""

from __future__ import annotations

from fewbit.formats.bitsandbytes.config import METHOD, read_settings
from fewbit.formats.bitsandbytes.resolve import BitsAndBytesResolver
from fewbit.formats.folder.files import FolderFiles

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    found = files.declarations.get("quantization_config")
    return found is not None and found.method == METHOD


def resolver(files: FolderFiles) -> BitsAndBytesResolver:
    return BitsAndBytesResolver(read_settings(files))
