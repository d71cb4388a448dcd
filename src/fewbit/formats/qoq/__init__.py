"""QoQ folders of QServe: 4-bit codes in the order of its kernels, one scale a row, or a second one for groups of 128.

They rest on the published layout of its kernels and its converter; no file of theirs was at hand.
"""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.qoq.config import find_declaration, read_settings
from fewbit.formats.qoq.resolve import QoqResolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    return find_declaration(files) is not None


def resolver(files: FolderFiles) -> QoqResolver:
    return QoqResolver(read_settings(files))
