"""ModelOpt folders: FP8, NVFP4, MXFP8, MXFP4, INT4 AWQ and INT8, one algorithm or one for each layer."""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.modelopt.config import SIDE_FILE, is_modelopt, read_settings
from fewbit.formats.modelopt.resolve import ModelOptResolver
from fewbit.formats.w4afp8 import declares as is_w4afp8

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    found = files.declarations.get("quantization_config") or files.declarations.get(SIDE_FILE)
    return found is not None and is_modelopt(found) and not is_w4afp8(files)


def resolver(files: FolderFiles) -> ModelOptResolver:
    return ModelOptResolver(read_settings(files))
