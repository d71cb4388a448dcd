"""torchao folders in safetensors: tensor subclasses taken apart, each described in the header's metadata."""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.torchao.config import METHOD, read_settings
from fewbit.formats.torchao.resolve import TorchAoResolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    found = files.declarations.get("quantization_config")
    return found is not None and found.method == METHOD


def resolver(files: FolderFiles) -> TorchAoResolver:
    return TorchAoResolver(read_settings(files))
