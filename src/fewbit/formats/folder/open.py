"""Opening a Hugging Face folder of any format."""

from __future__ import annotations

from pathlib import Path

from fewbit.formats.folder.checkpoint import FolderCheckpoint
from fewbit.formats.folder.detect import find_format
from fewbit.formats.folder.files import FolderFiles


def open_folder(path: Path, quantization: str = "") -> FolderCheckpoint:
    files = FolderFiles(path)
    try:
        name, found = find_format(files, quantization)
        return FolderCheckpoint(files, name, found.resolver(files))
    except BaseException:
        files.close()
        raise
