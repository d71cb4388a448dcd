"""Tiny gpt-oss folders for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.mxfp4.encode import config_of, encode, interleave
from fewbit.formats.mxfp4.resolve import MXFP4
from fewbit.schemes.arrays import Array
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights

EXPERTS = 3


def tiny_experts(config: dict[str, Any], seed: int = 0) -> dict[str, Array]:
    """f32 weights and biases of all experts of a model, by canonical name."""
    rng = np.random.default_rng(seed)
    hidden, inner = config["hidden_size"], config["intermediate_size"]
    shapes = {"gate_proj": (inner, hidden), "up_proj": (inner, hidden), "down_proj": (hidden, inner)}
    found: dict[str, Array] = {}
    for layer in range(config["num_hidden_layers"]):
        for expert in range(EXPERTS):
            for name, (n, k) in shapes.items():
                at = f"model.layers.{layer}.mlp.experts.{expert}.{name}"
                found[f"{at}.weight"] = rng.standard_normal((n, k)).astype(np.float32)
                found[f"{at}.bias"] = rng.standard_normal(n).astype(np.float32)
    return found


def tiny_mxfp4(folder: Path, *, seed: int = 0, keys: dict[str, Any] | None = None, **changes: Any) -> Path:
    """A random model of the type gpt_oss; `keys` are added to the quantization config."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**{"model_type": "gpt_oss", **changes})
    weights = tiny_weights(config, seed)
    stored: dict[str, DiskArray] = {
        name: as_disk(quantize(weight, BF16)) for name, weight in weights.items() if ".mlp." not in name
    }
    experts = tiny_experts(config, seed)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}.mlp.experts."

        def of(name: str, leaf: str, at: str = at) -> list[Array]:
            return [experts[f"{at}{expert}.{name}.{leaf}"] for expert in range(EXPERTS)]

        tensors = [
            [quantize(w, MXFP4) for w in of(n, "weight")] for n in ("gate_proj", "up_proj", "down_proj")
        ]
        biases = {
            "gate_up_proj_bias": [
                interleave(g, u) for g, u in zip(of("gate_proj", "bias"), of("up_proj", "bias"))
            ],
            "down_proj_bias": of("down_proj", "bias"),
        }
        stored |= {f"{at}{leaf}": array for leaf, array in encode(*tensors).items()}
        stored |= {f"{at}{leaf}": as_disk(quantize(np.stack(b), BF16)) for leaf, b in biases.items()}
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    write_json(folder / "config.json", {**config, "quantization_config": config_of(**(keys or {}))})
    return folder
