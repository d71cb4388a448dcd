"""Edits to a good folder, for tests of what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import DiskArray, safetensors_bytes

Edit = Callable[[Path], None]


def keys(section: str, **changes: Any) -> Edit:
    """Keys of a section of config.json set; ... takes one away."""

    def act(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        values = config[section] | changes
        config[section] = {k: v for k, v in values.items() if v is not ...}
        (folder / "config.json").write_text(json.dumps(config))

    return act


def drop(name: str) -> Edit:
    return _edit(lambda held: held.pop(name))


def rename(name: str, new: str) -> Edit:
    return _edit(lambda held: held.update({new: held.pop(name)}))


def add(name: str, kind: str, array: np.ndarray) -> Edit:
    return _edit(lambda held: held.update({name: DiskArray(kind, array)}))


def put(name: str, change: Callable[[np.ndarray], np.ndarray], kind: str = "") -> Edit:
    """One tensor changed, and given another type if `kind` is given."""

    def act(held: dict[str, DiskArray]) -> None:
        held[name] = DiskArray(kind or held[name].kind, np.asarray(change(held[name].array), order="C"))

    return _edit(act)


def _edit(change: Callable[[dict[str, DiskArray]], Any]) -> Edit:
    def act(folder: Path) -> None:
        path = folder / "model.safetensors"
        raw = path.read_bytes()
        header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
        file = CheckedFile(path)
        held = {
            name: DiskArray(tensor.kind, tensor.whole().copy()) for name, tensor in read_header(file).items()
        }
        file.close()
        change(held)
        path.write_bytes(safetensors_bytes(held, header.get("__metadata__")))

    return act
