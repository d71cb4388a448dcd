"""AWQ folders of AutoAWQ, GPTQModel and AutoRound: 4-bit codes with zero points, packed across rows (gemm) or along them (gemv)."""

from __future__ import annotations

from fewbit.formats.awq.config import find_declaration, read_settings
from fewbit.formats.awq.resolve import AwqResolver
from fewbit.formats.folder.files import FolderFiles

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    return find_declaration(files) is not None


def resolver(files: FolderFiles) -> AwqResolver:
    return AwqResolver(read_settings(files), files.tensors)
