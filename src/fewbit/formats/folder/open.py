"""Opening a Hugging Face folder of any format."""

from __future__ import annotations

from pathlib import Path

from fewbit.formats.folder.checkpoint import FolderCheckpoint
from fewbit.formats.folder.detect import find_format
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.names import FindText, whole


def open_folder(path: Path, quantization: str = "", find_text: FindText = whole) -> FolderCheckpoint:
    files = FolderFiles(path, find_text)
    try:
        name, found = find_format(files, quantization)
        return FolderCheckpoint(files, name, found.resolver(files))
    except BaseException:
        files.close()
        raise
