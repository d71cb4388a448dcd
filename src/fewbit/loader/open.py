"""Opening a checkpoint as the model families see it: the text model inside a wrapper, under canonical names."""

from __future__ import annotations

from pathlib import Path

from fewbit.formats import open_checkpoint
from fewbit.formats.checkpoint import Checkpoint
from fewbit.models.wrappers import find_text


def open_model(path: Path, quantization: str = "") -> Checkpoint:
    """CheckpointError when refused; `quantization` names the format that the checkpoint must be in."""
    return open_checkpoint(path, quantization, find_text)
