"""Tiny DeepSeek-V4 folders for tests: FP8 layers, FP4 experts, the names that the released checkpoints have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.formats.fp8.encode import FP4, config_of, encode
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import E4M3, E8M0
from fewbit.spec.granularity import block
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config

LAYERS = Scheme(E4M3, block(128, 128), E8M0)
EXPERTS = 3


def tiny_quantized(config: dict[str, Any], seed: int = 0) -> dict[str, QuantTensor]:
    """The quantized weights by the module's name."""
    hidden, inner, rng = config["hidden_size"], config["intermediate_size"], np.random.default_rng(seed)
    found = {}
    for layer in range(config["num_hidden_layers"]):
        at = f"layers.{layer}"
        sizes = {f"{at}.attn.wq_a": (96, hidden), f"{at}.attn.wo_b": (hidden, 160)}
        experts = [f"experts.{expert}" for expert in range(EXPERTS)]
        for expert in (*experts, "shared_experts"):
            name = f"{at}.ffn.{expert}"
            sizes |= {
                f"{name}.w1": (inner, hidden),
                f"{name}.w2": (hidden, inner),
                f"{name}.w3": (inner, hidden),
            }
        for name, shape in sizes.items():
            scheme = FP4 if ".experts." in name else LAYERS
            found[name] = quantize(rng.standard_normal(shape).astype(np.float32), scheme)
    return found


def tiny_deepseek_v4(
    folder: Path, *, seed: int = 0, keys: dict[str, Any] | None = None, **changes: Any
) -> Path:
    """`keys` are added to the quantization config; expert_dtype stands beside it."""
    folder.mkdir(parents=True, exist_ok=True)
    config = tiny_config(**{"model_type": "deepseek_v4", "expert_dtype": "fp4", **changes})
    hidden, vocabulary = config["hidden_size"], config["vocab_size"]
    plain = {"embed": (vocabulary, hidden), "head": (vocabulary, hidden), "norm": (hidden,)}
    stored: dict[str, DiskArray] = {}
    for layer in range(config["num_hidden_layers"]):
        plain |= {f"layers.{layer}.attn_norm": (hidden,), f"layers.{layer}.ffn.gate": (EXPERTS, hidden)}
        table = np.random.default_rng(seed).integers(0, EXPERTS, (vocabulary, 2))
        stored[f"layers.{layer}.ffn.gate.tid2eid"] = DiskArray("I64", table)
    for name, shape in plain.items():
        stored[f"{name}.weight"] = as_disk(quantize(np.ones(shape, np.float32), BF16))
    for name, tensor in tiny_quantized(config, seed).items():
        leaves = encode(tensor)
        stored |= {f"{name}.weight": leaves["weight"], f"{name}.scale": leaves["weight_scale_inv"]}
    write_weights(folder, stored)
    write_tiny_files(folder, config)
    quantization = config_of(LAYERS, scale_fmt="ue8m0", **(keys or {}))
    write_json(folder / "config.json", {**config, "quantization_config": quantization})
    return folder
