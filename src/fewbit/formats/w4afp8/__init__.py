"""W4AFP8 folders: experts of 4-bit integers with scales for FP8 activations, all other layers FP8 by blocks.

They rest on what the tools that write and serve such checkpoints publish; no file of theirs was at hand.
"""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.w4afp8.config import find_declaration, read_settings
from fewbit.formats.w4afp8.resolve import W4AFp8Resolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    return find_declaration(files) is not None


def resolver(files: FolderFiles) -> W4AFp8Resolver:
    return W4AFp8Resolver(read_settings(files), files.tensors.keys())
