"""Formats describe checkpoints on disk and decode them to canonical tensors. They know nothing of kernels."""

from __future__ import annotations

from pathlib import Path

from fewbit.formats.checkpoint import Checkpoint
from fewbit.formats.folder.names import FindText, whole
from fewbit.formats.quantization import check, wanted
from fewbit.formats.sniff import sniff

__all__ = ["open_checkpoint"]


def open_checkpoint(path: Path, quantization: str = "", find_text: FindText = whole) -> Checkpoint:
    """Open a GGUF file or a Hugging Face folder by what it holds, not by its name; CheckpointError when refused.

    Headers, metadata and tokenizer are read and checked; tensor data is not touched. `quantization` names the format that
    the checkpoint must be in. `find_text` (of the model families) finds the text model inside a wrapper of several.
    """
    if quantization:
        wanted(quantization)  # before anything is opened
    if sniff(path) == "gguf":
        from fewbit.formats.gguf import open_gguf

        checkpoint: Checkpoint = open_gguf(path)
    else:
        from fewbit.formats.folder.open import open_folder

        checkpoint = open_folder(path, quantization, find_text)
    if quantization:
        try:
            check(checkpoint, quantization)
        except BaseException:
            checkpoint.close()
            raise
    return checkpoint
