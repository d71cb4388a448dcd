"""Running a conversion in tests, and the tensors of a folder as bytes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.convert.run import Done, convert
from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.safetensors import read_header
from fewbit.schemes.reference import dequantize
from tests.oracles.oracle import NOT_THE_TOOLS
from tests.oracles.store import SUBSET, whole


def converted(source: Path, place: Path, to: str, **options: Any) -> Path:
    convert(source, place, to, **options)
    return place


def done(source: Path, place: Path, to: str, **options: Any) -> Done:
    return convert(source, place, to, **options)


def stored_tensors(folder: Path) -> dict[str, tuple[str, tuple[int, ...], bytes]]:
    """Type, shape and bytes of every tensor by name, whichever file it lies in."""
    found = {}
    for path in sorted(folder.glob("*.safetensors")):
        file = CheckedFile(path)
        for name, tensor in read_header(file).items():
            found[name] = tensor.kind, tensor.shape, tensor.whole().tobytes()
        file.close()
    return found


def weights(path: Path) -> dict[str, bytes]:
    """f32 of every tensor, as bytes."""
    checkpoint = open_checkpoint(path)
    try:
        return {name: dequantize(checkpoint.read(name)).tobytes() for name in checkpoint.tensors}
    finally:
        checkpoint.close()


def oracle_copy(name: str, scratch: Path) -> Path:
    """The tool's files of a stored checkpoint: the whole one where it is here, else what the clone has of it."""
    store = next(s for s in (whole(), SUBSET) if s is not None and name in s.entries())
    copy = scratch / name
    shutil.copytree(store.checkpoint(name), copy, ignore=shutil.ignore_patterns(*NOT_THE_TOOLS))
    files = list(copy.glob("*.gguf"))
    return files[0] if files else copy


def declared(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "config.json").read_text())["quantization_config"]
    return found


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    return bool(a.shape == b.shape and np.array_equal(a.view(np.uint32), b.view(np.uint32)))
