"""A tiny folder whose projections are stored by a format and all else as BF16."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.schemes.arrays import Array
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from tests.formats.plain.fixture import write_tiny_files


def write_stored(
    folder: Path,
    config: dict[str, Any],
    quantization: Mapping[str, object],
    weights: Mapping[str, Array],
    store: Callable[[str, Array], Mapping[str, DiskArray]],
) -> Path:
    """`store` gives the leaves of a projection's module, from its name and its weight in f32."""
    folder.mkdir(parents=True, exist_ok=True)
    stored: dict[str, DiskArray] = {}
    for name, weight in weights.items():
        module = name.removesuffix(".weight")
        if is_projection(name, weight):
            stored |= {f"{module}.{leaf}": array for leaf, array in store(module, weight).items()}
        else:
            stored[name] = as_disk(quantize(weight, BF16))
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    write_json(folder / "config.json", {**config, "quantization_config": dict(quantization)})
    return folder


def is_projection(name: str, weight: Array) -> bool:
    return "proj" in name and weight.ndim == 2
