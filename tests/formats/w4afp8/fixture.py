"""Tiny W4AFP8 folders for tests: a mixture of experts under DeepSeek-V3's names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.fp8.encode import encode as encode_fp8
from fewbit.formats.w4afp8.encode import config_of, encode
from fewbit.schemes.arrays import Array
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import E4M3, F32, I4
from fewbit.spec.granularity import block, group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.stored import write_stored
from tests.formats.tiny import tiny_config, tiny_weights

EXPERTS = 2
GROUP = 32
LINEAR = Scheme(E4M3, block(128, 128), F32)
PACKED = Scheme(I4, group(GROUP), F32)
INPUT_SCALE = np.array([0.03], np.float32)
SHORT = {"gate_proj": "w1", "down_proj": "w2", "up_proj": "w3"}


def mixture(config: dict[str, Any], seed: int = 0) -> dict[str, Array]:
    """f32 weights; the feed-forward layers of the tiny model serve as its shared experts."""
    rng, found = np.random.default_rng(seed), {}
    for name, weight in tiny_weights(config, seed).items():
        found[name.replace(".mlp.", ".mlp.shared_experts.")] = weight
        for expert in range(EXPERTS if ".mlp." in name else 0):
            made = rng.standard_normal(weight.shape) / np.sqrt(weight.shape[1])
            found[name.replace(".mlp.", f".mlp.experts.{expert}.")] = made.astype(np.float32)
    return found


def stored(module: str, weight: Array) -> QuantTensor:
    return quantize(weight, PACKED if ".experts." in module else LINEAR)


def tiny_w4afp8(folder: Path, *, seed: int = 0, keys: dict[str, Any] | None = None, **changes: Any) -> Path:
    """`keys` are added to the quantization config."""

    def store(module: str, weight: Array) -> dict[str, DiskArray]:
        tensor = stored(module, weight)
        return encode(tensor, INPUT_SCALE) if ".experts." in module else encode_fp8(tensor)

    config = tiny_config(**{"model_type": "deepseek_v3", **changes})
    return write_stored(folder, config, config_of(GROUP, **(keys or {})), mixture(config, seed), store)
