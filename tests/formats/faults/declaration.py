"""What config.json and the files beside it say of the quantization, said wrongly."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.formats.edits import Edit
from tests.formats.faults.place import MODULE, PLACE, Fault, Places

CONFIGS = ("quantization_config", "quantization", "compression_config", "quip_params")
BITS = ("bits", "num_bits", "w_bit", "nbits", "nbits_per_codebook")
ALGORITHMS = ("quant_method", "quant_algo", "checkpoint_format", "format", "version", "packing_format", "bnb_4bit_quant_type",
              "dtype", "mode", "fmt", "type", "strategy", "qscheme", "data_type", "pack_method", "codebook")  # fmt: skip


def declarations(folder: Path) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
    """File, path of keys and value of each object that declares the quantization, nested ones included."""

    def inside(
        file: str, path: tuple[str, ...], value: dict[str, Any]
    ) -> Iterator[tuple[str, tuple[str, ...], dict[str, Any]]]:
        yield file, path, value
        for key, inner in value.items():
            if isinstance(inner, dict):
                yield from inside(file, (*path, key), inner)

    config = json.loads((folder / "config.json").read_text())
    for key in CONFIGS:
        if key in config:
            yield from inside("config.json", (key,), config[key])
    for path in sorted(folder.glob("quant_model_description*.json")):
        yield from inside(path.name, (), json.loads(path.read_text()))


def unknown_keys(folder: Path) -> Iterator[Fault]:
    for file, path, _ in declarations(folder):
        yield Fault("/".join(path), keys(file, path, mystery=1), ("mystery",))


def replaced(names: tuple[str, ...], values: tuple[Any, ...]) -> Places:
    def places(folder: Path) -> Iterator[Fault]:
        for file, path, held in declarations(folder):
            for name in names:
                for value in values if held.get(name) is not None and held[name] != 0 else ():
                    if value != held[name]:
                        where = f"{'/'.join((*path, name))}={value!r}"
                        yield Fault(
                            where,
                            keys(file, path, **{name: value}),
                            (name, str(value), *PLACE),
                        )

    return places


def removed(names: tuple[str, ...]) -> Places:
    def places(folder: Path) -> Iterator[Fault]:
        for file, path, held in declarations(folder):
            for name in names:
                if name in held:
                    told = (name, "without a name", "for the format mlx", *PLACE)
                    yield Fault("/".join((*path, name)), keys(file, path, **{name: ...}), told)

    return places


def algorithms(folder: Path) -> Iterator[Fault]:
    """By name, and as the description of each tensor that msModelSlim writes."""
    yield from replaced(ALGORITHMS, ("mystery", 7, ["x"]))(folder)
    for file, path, held in declarations(folder):
        for name in held if file.startswith("quant_model_description") else ():
            if name.startswith(MODULE):
                yield Fault(name, keys(file, path, **{name: "W9A9"}), (name, "W9A9"))


def keys(file: str, path: tuple[str, ...], **changes: Any) -> Edit:
    def act(folder: Path) -> None:
        whole = json.loads((folder / file).read_text())
        value = whole
        for key in path:
            value = value[key]
        value.update(changes)
        for key in [key for key, changed in changes.items() if changed is ...]:
            del value[key]
        (folder / file).write_text(json.dumps(whole))

    return act
