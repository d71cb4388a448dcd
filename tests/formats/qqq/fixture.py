"""Tiny QQQ folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.folder.marlin import BYTES, pack_marlin, pack_marlin_scales
from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.schemes.arrays import Array
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights

GROUP = 128
SIZES = {
    "hidden_size": 256,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 64,
}


def tiny_qqq(folder: Path, *, seed: int = 0, keys: dict[str, Any] | None = None, **changes: Any) -> Path:
    """A random model whose projections are random codes and scales; `keys` are added to the quantization config."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**{**SIZES, "num_hidden_layers": 1, **changes})
    stored: dict[str, DiskArray] = {}
    for name, weight in tiny_weights(config, seed).items():
        if "proj" in name and weight.ndim == 2:
            leaves = encode(*tiny_parts(weight.shape, seed))
            stored |= {f"{name.removesuffix('weight')}{leaf}": array for leaf, array in leaves.items()}
        else:
            stored[name] = as_disk(quantize(weight, BF16))
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    quantization = {"quant_method": "qqq", "bits": 4, "group_size": GROUP, "format": "qqq", **(keys or {})}
    write_json(folder / "config.json", {**config, "quantization_config": quantization})
    return folder


def tiny_parts(shape: tuple[int, ...], seed: int = 0) -> tuple[Array, Array, Array]:
    """Codes u4 [N, K], s_group f16 [N, groups] up to values that must be cut, s_channel f32 [N, 1]."""
    rng = np.random.default_rng(seed)
    n, k = shape
    codes = rng.integers(0, 16, (n, k)).astype(np.uint8)
    groups = rng.uniform(0.5, 20, (n, k // GROUP)).astype(np.float16)
    return codes, groups, rng.uniform(0.001, 0.002, (n, 1)).astype(np.float32)


def encode(codes: Array, groups: Array, channel: Array) -> dict[str, DiskArray]:
    return {
        "B": DiskArray("I32", pack_marlin(codes, BYTES)),
        "s_group": DiskArray("F16", pack_marlin_scales(groups)),
        "s_channel": DiskArray("F32", pack_marlin_scales(channel, single=True)),
    }
