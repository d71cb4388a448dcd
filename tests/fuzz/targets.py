"""What is fuzzed: a reader of untrusted bytes may raise CheckpointError and nothing else, and must end soon."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from fewbit.formats import open_checkpoint
from fewbit.formats.auto_round import config as auto_round
from fewbit.formats.auto_round.fixture import tiny_auto_round
from fewbit.formats.awq import config as awq
from fewbit.formats.awq.fixture import tiny_awq
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.gguf.fixture import gguf_bytes, tiny_gguf_parts
from fewbit.formats.gptq.config import Settings
from fewbit.formats.gptq.fixture import tiny_gptq
from fewbit.formats.modelslim.fixture import tiny_modelslim
from fewbit.formats.plain.fixture import tiny_folder
from fewbit.formats.qqq.fixture import SIZES, tiny_qqq
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


def write_awq(folder: Path, **changes: int) -> Path:
    return tiny_awq(folder, awq.Settings(32), **changes)


def write_auto_round(folder: Path, **changes: int) -> Path:
    return tiny_auto_round(folder, auto_round.Settings(4, 32), **changes)


def write_modelslim(folder: Path, **changes: int) -> Path:
    return tiny_modelslim(folder, "W8A8", **changes)


def write_qqq(folder: Path, **changes: int) -> Path:
    return tiny_qqq(folder, **{**changes, **SIZES})


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


_WRITERS: dict[str, Callable[..., Path]] = {
    "gptq": write_gptq,
    "awq": write_awq,
    "auto_round": write_auto_round,
    "modelslim": write_modelslim,
    "qqq": write_qqq,
}


def seed(name: str) -> bytes:
    """A valid input of a target."""
    if name == "gguf":
        return gguf_bytes(*tiny_gguf_parts("u4g32o", **_SMALL))
    with tempfile.TemporaryDirectory() as folder:
        kind, _, file = name.partition(" ")
        if kind in _WRITERS:
            return (_WRITERS[kind](Path(folder), **_SMALL) / file).read_bytes()
        files = {"safetensors": "model.safetensors"}
        return (tiny_folder(Path(folder), **_SMALL) / files.get(name, name)).read_bytes()


TARGETS: dict[str, Callable[[Path, bytes], bool]] = {
    "gguf": gguf,
    "safetensors": safetensors,
    **{name: in_folder(name) for name in ("config.json", "tokenizer.json", "tokenizer_config.json")},
    **{
        f"{kind} {name}": in_folder(name, write)
        for kind, write in _WRITERS.items()
        for name in ("config.json", "model.safetensors")
    },
    "modelslim quant_model_description.json": in_folder("quant_model_description.json", write_modelslim),
}
