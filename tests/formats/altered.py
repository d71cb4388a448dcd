"""Changing one thing in a good folder, to see it refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray
from tests.formats.edits import Edit as Alter
from tests.formats.edits import drop, rename, tensors

__all__ = ["Alter", "beside", "drop", "keys", "put", "rename", "tensors"]


def keys(file: str = "config.json", inside: str = "quantization_config", **changes: Any) -> Alter:
    """Keys of the quantization config replaced; `...` removes one."""

    def act(folder: Path) -> None:
        config = json.loads((folder / file).read_text())
        changed = {k: v for k, v in (config[inside] | changes).items() if v is not ...}
        (folder / file).write_text(json.dumps(config | {inside: changed}))

    return act


def beside(folder: Path, leaf: str, kind: str, array: Any) -> None:
    """`leaf` put into every module that has a `weight_scale`."""

    def change(held: dict[str, DiskArray]) -> None:
        modules = [name.removesuffix(".weight_scale") for name in held if name.endswith(".weight_scale")]
        held.update({f"{module}.{leaf}": DiskArray(kind, array) for module in modules})

    tensors(change)(folder)


def put(name: str, kind: str, value: Any) -> Alter:
    """`value`: an array, or a function of the one that is there."""

    def change(held: dict[str, DiskArray]) -> None:
        array = value(held[name].array) if callable(value) else value
        held[name] = DiskArray(kind, np.ascontiguousarray(array))

    return tensors(change)
