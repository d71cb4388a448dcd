"""HQQ in safetensors, as transformers 4 saves it: W_q, scale and zero beside each quantized module, its settings as small tensors."""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.hqq.config import METHOD, read_config
from fewbit.formats.hqq.resolve import HqqResolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    found = files.declarations.get("quantization_config")
    return found is not None and found.method == METHOD


def resolver(files: FolderFiles) -> HqqResolver:
    return HqqResolver(read_config(files))
