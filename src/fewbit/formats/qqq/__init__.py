"""QQQ folders of GPTQModel: 4-bit codes in Marlin's layout that two scales make into 8-bit ones."""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.qqq.config import find_declaration, read_settings
from fewbit.formats.qqq.resolve import QqqResolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    return find_declaration(files) is not None


def resolver(files: FolderFiles) -> QqqResolver:
    return QqqResolver(read_settings(files))
