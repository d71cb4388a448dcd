"""Edits to a good folder, for tests of what is refused."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.safetensors import read_header, read_metadata
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
    return tensors(lambda held: held.pop(name))


def rename(name: str, new: str) -> Edit:
    return tensors(lambda held: held.update({new: held.pop(name)}))


def add(name: str, kind: str, array: np.ndarray) -> Edit:
    return tensors(lambda held: held.update({name: DiskArray(kind, array)}))


def put(name: str, change: Callable[[np.ndarray], np.ndarray], kind: str = "") -> Edit:
    """One tensor changed, and given another type if `kind` is given."""

    def act(held: dict[str, DiskArray]) -> None:
        held[name] = DiskArray(kind or held[name].kind, np.asarray(change(held[name].array), order="C"))

    return tensors(act)


def put_metadata(name: str, text: str | None) -> Edit:
    """A string of the header's metadata; None takes it away."""

    def act(folder: Path) -> None:
        rest = {key: value for key, value in _metadata(folder).items() if key != name}
        _write(folder, read_tensors(folder), rest if text is None else rest | {name: text})

    return act


def add_metadata(name: str, section: str, **changes: Any) -> Edit:
    """Keys of the JSON in a string of the metadata, or of a section of it."""

    def act(folder: Path) -> None:
        value = json.loads(_metadata(folder)[name])
        (value[section] if section else value).update(changes)
        put_metadata(name, json.dumps(value))(folder)

    return act


def tensors(change: Callable[[dict[str, DiskArray]], Any]) -> Edit:
    """All tensors by name, changed in place."""

    def act(folder: Path) -> None:
        held = read_tensors(folder)
        change(held)
        _write(folder, held, _metadata(folder))

    return act


def renamed(prefixes: Mapping[str, str]) -> Edit:
    """Tensors behind another prefix, in the header's metadata as well."""

    def new(name: str) -> str:
        old = next((p for p in prefixes if name.startswith(p)), None)
        return name if old is None else prefixes[old] + name[len(old) :]

    def inside(text: str) -> str:
        return re.sub(r'(?<=")(' + "|".join(map(re.escape, prefixes)) + ")", lambda m: prefixes[m[1]], text)

    def act(folder: Path) -> None:
        held = {new(name): tensor for name, tensor in read_tensors(folder).items()}
        _write(folder, held, {new(name): inside(text) for name, text in _metadata(folder).items()})

    return act


def _metadata(folder: Path) -> dict[str, str]:
    file = CheckedFile(folder / "model.safetensors")
    try:
        return read_metadata(file)
    finally:
        file.close()


def read_tensors(folder: Path, name: str = "model.safetensors") -> dict[str, DiskArray]:
    file = CheckedFile(folder / name)
    try:
        return {n: DiskArray(t.kind, t.whole().reshape(t.shape).copy()) for n, t in read_header(file).items()}
    finally:
        file.close()


def _write(folder: Path, held: dict[str, DiskArray], metadata: dict[str, str]) -> None:
    (folder / "model.safetensors").write_bytes(safetensors_bytes(held, metadata))
