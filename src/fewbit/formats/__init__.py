"""Formats describe checkpoints on disk and decode them to canonical tensors. They know nothing of kernels."""

from __future__ import annotations

from pathlib import Path

from fewbit.formats.checkpoint import Checkpoint
from fewbit.formats.sniff import sniff

__all__ = ["open_checkpoint"]


def open_checkpoint(path: Path) -> Checkpoint:
    """Open a GGUF file or a Hugging Face folder by what it holds, not by its name; CheckpointError when refused.

    Headers, metadata and tokenizer are read and checked; tensor data is not touched.
    """
    match sniff(path):
        case "gguf":
            from fewbit.formats.gguf import open_gguf

            return open_gguf(path)
        case "plain":
            from fewbit.formats.plain import open_plain

            return open_plain(path)
