"""What is fuzzed: a reader of untrusted bytes may raise CheckpointError and nothing else, and must end soon."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.gguf.fixture import gguf_bytes, tiny_gguf_parts
from fewbit.formats.gptq.config import Settings
from fewbit.formats.gptq.fixture import tiny_gptq
from fewbit.formats.plain.fixture import tiny_folder
from fewbit.spec.refusal import CheckpointError

_SMALL = {"hidden_size": 32, "intermediate_size": 32, "head_dim": 8, "num_hidden_layers": 1}


def gguf(folder: Path, data: bytes) -> bool:
    """Opens, builds the tokenizer, reads every tensor. True when nothing was refused."""
    path = folder / "fuzzed.gguf"
    path.write_bytes(data)
    try:
        checkpoint = open_checkpoint(path)
        try:
            _ = checkpoint.tokenizer
            for name in checkpoint.tensors:
                checkpoint.read(name)
        finally:
            checkpoint.close()
    except CheckpointError:
        return False
    return True


def gguf_part(folder: Path, data: bytes) -> bool:
    """The second of two parts, beside a good first one."""
    (folder / "m-00001-of-00002.gguf").write_bytes(gguf_bytes(*_half(0)))
    (folder / "m-00002-of-00002.gguf").write_bytes(data)
    try:
        checkpoint = open_checkpoint(folder / "m-00001-of-00002.gguf")
        try:
            for name in checkpoint.tensors:
                checkpoint.read(name)
        finally:
            checkpoint.close()
    except CheckpointError:
        return False
    return True


def _half(part: int) -> tuple[dict[str, Any], dict[str, Any]]:
    metadata, tensors = tiny_gguf_parts("u4g32o", **_SMALL)
    keys = {"split.no": part, "split.count": 2, "split.tensors.count": len(tensors)}
    return {**({} if part else metadata), **keys}, dict(list(tensors.items())[part::2])


def safetensors(folder: Path, data: bytes) -> bool:
    path = folder / "fuzzed.safetensors"
    path.write_bytes(data)
    file = CheckedFile(path)
    try:
        for tensor in read_header(file).values():
            file.read(tensor.start, tensor.bytes, "tensor")
    except CheckpointError:
        return False
    finally:
        file.close()
    return True


def write_gptq(folder: Path, **changes: int) -> Path:
    return tiny_gptq(folder, Settings(4, 32, True), **changes)


def in_folder(name: str, write: Callable[..., Path] = tiny_folder) -> Callable[[Path, bytes], bool]:
    """A good folder in which one file is replaced."""

    def target(folder: Path, data: bytes) -> bool:
        if not (folder / "config.json").exists():
            write(folder, **_SMALL)
        good = (folder / name).read_bytes()
        (folder / name).write_bytes(data)
        try:
            checkpoint = open_checkpoint(folder)
            try:
                _ = checkpoint.tokenizer
                for tensor in checkpoint.tensors if write is not tiny_folder else ():
                    checkpoint.read(tensor)
            finally:
                checkpoint.close()
        except CheckpointError:
            return False
        finally:
            (folder / name).write_bytes(good)
        return True

    return target


def seed(name: str) -> bytes:
    """A valid input of a target."""
    if name == "gguf":
        return gguf_bytes(*tiny_gguf_parts("u4g32o", **_SMALL))
    if name == "gguf part":
        return gguf_bytes(*_half(1))
    with tempfile.TemporaryDirectory() as folder:
        if name.startswith("gptq "):
            return (write_gptq(Path(folder), **_SMALL) / name.removeprefix("gptq ")).read_bytes()
        files = {"safetensors": "model.safetensors"}
        return (tiny_folder(Path(folder), **_SMALL) / files.get(name, name)).read_bytes()


TARGETS: dict[str, Callable[[Path, bytes], bool]] = {
    "gguf": gguf,
    "gguf part": gguf_part,
    "safetensors": safetensors,
    **{name: in_folder(name) for name in ("config.json", "tokenizer.json", "tokenizer_config.json")},
    **{f"gptq {name}": in_folder(name, write_gptq) for name in ("config.json", "model.safetensors")},
}
