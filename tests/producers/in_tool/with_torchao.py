"""torchao, through transformers: the quantized tensors' own `dequantize`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import common
import torch
import torchao.quantization as ao
import transformers


def write(folder: Path, case: dict[str, Any]) -> common.Weights:
    source = common.save_llama(folder.with_name(f"{folder.name}-plain"), case)
    settings = dict(case["settings"])
    if "weight_dtype" in settings:
        settings["weight_dtype"] = getattr(torch, settings["weight_dtype"])
    if "granularity" in settings:
        kind, *size = settings["granularity"]
        settings["granularity"] = getattr(ao, kind)(*size)
    if "mapping_type" in settings:
        settings["mapping_type"] = getattr(ao.MappingType, settings["mapping_type"])
    config = getattr(ao, case["config"])(**settings)
    model = load(
        source, quantization_config=transformers.TorchAoConfig(config, modules_to_not_convert=["lm_head"])
    )
    model.save_pretrained(folder)
    return dequantized(model)


def read(folder: Path, case: dict[str, Any]) -> common.Weights:
    return dequantized(load(folder))


def load(folder: Path, **more: Any) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16, **more)


def dequantized(model: Any) -> common.Weights:
    weights = {f"{name}.weight": module.weight for name, module in common.linears(model).items()}
    return {name: w.dequantize() for name, w in weights.items() if type(w).__module__.startswith("torchao")}


common.main(write=write, read=read)
