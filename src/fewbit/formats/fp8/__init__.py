"""FP8 folders as DeepSeek and transformers write them: e4m3 weights with `weight_scale_inv` or `weight_scale` beside them."""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.fp8.config import METHODS, read_settings
from fewbit.formats.fp8.resolve import Fp8Resolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    found = files.declarations.get("quantization_config")
    return found is not None and found.method in METHODS


def resolver(files: FolderFiles) -> Fp8Resolver:
    return Fp8Resolver(read_settings(files))
