"""MLX: converted by mlx-lm; what mx.dequantize gives of the file's tensors, in float32."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import common
import mlx.core as mx
import numpy as np
import torch
from mlx_lm import convert, load


def write(folder: Path, case: dict[str, Any]) -> common.Weights:
    source = common.save_llama(folder.with_name(f"{folder.name}-plain"), case)
    convert(str(source), mlx_path=str(folder), quantize=True, **case["quantize"])
    return dequantized(folder)


def read(folder: Path, case: dict[str, Any]) -> common.Weights:
    """mlx-lm must load it as a model, too."""
    load(str(folder))
    return dequantized(folder)


def dequantized(folder: Path) -> common.Weights:
    settings = json.loads((folder / "config.json").read_text())["quantization"]
    stored = mx.load(str(folder / "model.safetensors"))
    found: common.Weights = {}
    for name in stored:
        if not name.endswith(".scales"):
            continue
        module = name.removesuffix(".scales")
        own = settings.get(module, settings)
        scales, biases = stored[name], stored.get(f"{module}.biases")
        weight = mx.dequantize(
            stored[f"{module}.weight"],
            scales if scales.dtype == mx.uint8 else scales.astype(mx.float32),
            None if biases is None else biases.astype(mx.float32),
            group_size=own["group_size"],
            bits=own["bits"],
            mode=own.get("mode", "affine"),
        )
        found[f"{module}.weight"] = torch.from_numpy(np.array(weight.astype(mx.float32)))
    return found


common.main(write=write, read=read)
