"""GPTQ folders of AutoGPTQ, GPTQModel and Optimum: qweight, qzeros, scales and g_idx beside each quantized module."""

from __future__ import annotations

from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.gptq.config import find_declaration, read_settings
from fewbit.formats.gptq.resolve import GptqResolver

__all__ = ["declares", "resolver"]


def declares(files: FolderFiles) -> bool:
    return find_declaration(files) is not None


def resolver(files: FolderFiles) -> GptqResolver:
    return GptqResolver(read_settings(files))
