"""AutoAWQ: min-max scales and zero points in float16, packed by its layers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import common
import torch
from awq.modules.linear.gemm import WQLinear_GEMM
from awq.modules.linear.gemv import WQLinear_GEMV
from safetensors.torch import save_file

LAYERS = {"gemm": WQLinear_GEMM, "gemv": WQLinear_GEMV}


def write(folder: Path, case: dict[str, Any]) -> common.Weights:
    model, group, version = common.llama(case, "f16"), case["group_size"], case["version"]
    stored, weights = dict(model.state_dict()), {}
    for name, linear in common.linears(model).items():
        quantized, scale, zero = rounded(linear.weight.data, group)
        linear.weight.data = weights[f"{name}.weight"] = quantized
        parts = (scale.t().contiguous(), zero.t().contiguous()) if version == "gemm" else (scale, zero)
        packed = LAYERS[version].from_linear(
            linear, w_bit=4, group_size=group, init_only=False, scales=parts[0], zeros=parts[1]
        )
        del stored[f"{name}.weight"]
        stored |= {f"{name}.{leaf}": value for leaf, value in packed.state_dict().items()}
    folder.mkdir()
    kept = {name: value.contiguous().clone() for name, value in stored.items()}
    save_file(kept, str(folder / "model.safetensors"), metadata={"format": "pt"})
    said = {"quant_method": "awq", "bits": 4, "group_size": group, "zero_point": True, "version": version}
    config = common.llama_config(case) | {"quantization_config": said}
    (folder / "config.json").write_text(json.dumps(config))
    return weights


def rounded(weight: torch.Tensor, group: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """By the tool's formula: (q - zero) * scale, all in float16."""
    rows = weight.reshape(-1, group)
    most, least = rows.amax(1, keepdim=True), rows.amin(1, keepdim=True)
    scale = (most - least).clamp(min=1e-5) / 15
    zero = (-torch.round(least / scale)).clamp(0, 15)
    value = (torch.clamp(torch.round(rows / scale) + zero, 0, 15) - zero) * scale
    return (value.reshape(weight.shape), *(part.view(weight.shape[0], -1) for part in (scale, zero)))


common.main(write=write)
