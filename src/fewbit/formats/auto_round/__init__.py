"""AutoRound folders: integers packed as GPTQ or AWQ pack them, or FP8, MXFP4 and NVFP4, each layer with settings of its own."""

from __future__ import annotations

from fewbit.formats.auto_round.config import find_declaration, read_settings
from fewbit.formats.auto_round.resolve import AutoRoundResolver
from fewbit.formats.folder.files import FolderFiles

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    return find_declaration(files) is not None


def resolver(files: FolderFiles) -> AutoRoundResolver:
    return AutoRoundResolver(read_settings(files))
