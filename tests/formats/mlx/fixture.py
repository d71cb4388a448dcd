"""Tiny MLX folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.mlx.config import Settings
from fewbit.formats.mlx.encode import config_of, encode, scheme_of
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights


def tiny_mlx(
    folder: Path,
    settings: Settings,
    *,
    seed: int = 0,
    overrides: dict[str, Settings | None] | None = None,
    scale: str = "bf16",
    **changes: Any,
) -> Path:
    """A random model whose matrices, embedding and head included, are stored as `settings` or the module's override say."""
    folder.mkdir(parents=True, exist_ok=True)
    config, overrides = tiny_config(**changes), overrides or {}
    stored: dict[str, DiskArray] = {}
    for name, weight in tiny_weights(config, seed).items():
        module = name.removesuffix(".weight")
        own = overrides.get(module, settings)
        if weight.ndim != 2 or own is None or weight.shape[1] % own.group_size:
            stored[name] = as_disk(quantize(weight, BF16))
            continue
        tensor = quantize(weight, scheme_of(own, scale))
        stored |= {f"{module}.{leaf}": array for leaf, array in encode(tensor, own).items()}
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    said = config_of(settings, **{name: (own and config_of(own)) or False for name, own in overrides.items()})
    write_json(folder / "config.json", {**config, "quantization": said, "quantization_config": said})
    return folder
