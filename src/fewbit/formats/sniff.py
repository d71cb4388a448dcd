"""Which format a path holds, judged by its first bytes. Never follows a name, never opens a device or a pipe."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Literal

from fewbit.spec.refusal import CheckpointError

PICKLE_SUFFIXES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
SAFE_ALTERNATIVE = (
    "pickle files can run code, so convert it to safetensors (save_pretrained writes them) or to GGUF"
)


def sniff(path: Path) -> Literal["gguf", "folder"]:
    """`gguf` for a GGUF file, `folder` for a Hugging Face folder or a safetensors file inside one."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        raise CheckpointError(
            f"{path}: no such file or folder; give the path of a GGUF file or Hugging Face folder"
        ) from None
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be opened ({error.strerror}); check path and permissions"
        ) from None
    if stat.S_ISDIR(mode):
        return _sniff_folder(path)
    magic = first_bytes(path)
    if magic[:4] == b"GGUF":
        return "gguf"
    if is_pickle(magic):
        raise CheckpointError(f"{path}: is a pickle checkpoint, which fewbit never opens; {SAFE_ALTERNATIVE}")
    if len(magic) >= 9 and magic[8:9] == b"{":
        raise CheckpointError(
            f"{path}: is a single safetensors file; give its folder, which also holds config.json"
        )
    if b"GGUF" in magic:
        at = magic.index(b"GGUF")
        raise CheckpointError(
            f"{path}: the GGUF magic stands at byte {at}, expected at byte 0; remove the junk before it"
        )
    if magic.startswith(b"version https://git-lfs"):
        raise CheckpointError(
            f"{path}: is a Git LFS pointer and not the file itself; fetch it with `git lfs pull`"
        )
    if not magic:
        raise CheckpointError(
            f"{path}: is empty; expected a GGUF file or a Hugging Face folder; fetch it again"
        )
    raise CheckpointError(
        f"{path}: begins with {magic[:4]!r}, which is no known checkpoint format; expected a GGUF file (magic b'GGUF') "
        "or a Hugging Face folder"
    )


def _sniff_folder(path: Path) -> Literal["gguf", "folder"]:
    names = sorted(entry.name for entry in os.scandir(path))
    if any(name.endswith((".safetensors", ".safetensors.index.json")) for name in names):
        return "folder"
    ggufs = [name for name in names if name.endswith(".gguf")]
    if ggufs:
        raise CheckpointError(f"{path}: is a folder with GGUF files; give one file: {', '.join(ggufs[:5])}")
    pickles = [name for name in names if name.endswith(PICKLE_SUFFIXES)]
    if pickles:
        raise CheckpointError(
            f"{path}: holds its weights as pickle ({pickles[0]}), never opened; {SAFE_ALTERNATIVE}"
        )
    raise CheckpointError(f"{path}: is a folder without weights; expected *.safetensors beside config.json")


def first_bytes(path: Path, count: int = 512) -> bytes:
    """Up to `count` bytes of a regular file; anything else (pipe, socket, device) is refused without opening it."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise CheckpointError(
            f"{path}: is not a regular file (a pipe, socket or device); give a GGUF file or a folder"
        )
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read ({error.strerror}); check permissions") from None
    try:
        return os.pread(fd, count, 0)
    finally:
        os.close(fd)


def is_pickle(magic: bytes) -> bool:
    """A zip archive (torch.save), a protocol 2-5 pickle, or the legacy torch magic number."""
    return magic[:4] == b"PK\x03\x04" or (
        magic[:1] == b"\x80" and magic[1:2] in b"\x02\x03\x04\x05" and len(magic) > 1
    )
