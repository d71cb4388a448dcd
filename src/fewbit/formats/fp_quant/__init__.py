"""FP-Quant folders: MXFP4 or NVFP4 weights of rotated activations, the rotation stored beside each module.

They rest on the published sources of FP-Quant and transformers; writing one takes a GPU that was not at hand.
"""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.fp_quant.config import METHOD, read_settings
from fewbit.formats.fp_quant.resolve import FpQuantResolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    found = files.declarations.get("quantization_config")
    return found is not None and found.method == METHOD


def resolver(files: FolderFiles) -> FpQuantResolver:
    return FpQuantResolver(read_settings(files))
