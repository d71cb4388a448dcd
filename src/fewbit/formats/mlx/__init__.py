"""MLX folders: a stream of packed words, scales and (affine) biases beside each quantized module, embedding and head included."""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.mlx.config import find_declaration, read_settings
from fewbit.formats.mlx.resolve import MlxResolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    return find_declaration(files) is not None


def resolver(files: FolderFiles) -> MlxResolver:
    return MlxResolver(read_settings(files))
