"""GPT-QModel: quantized with a little calibration, read back by its torch kernels in float16."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

os.environ.setdefault("GPTQMODEL_CPU_WORKERS", "2")  # it refuses machines of few cores otherwise
os.environ["TORCHDYNAMO_DISABLE"] = "1"  # compiling costs minutes

import common
import torch
from gptqmodel import BACKEND, GPTQModel, QuantizeConfig


def write(folder: Path, case: dict[str, Any]) -> common.Weights:
    source = common.save_llama(folder.with_name(f"{folder.name}-plain"), case)
    model = GPTQModel.load(str(source), QuantizeConfig(**case["settings"]), device="cpu")
    rows = common.token_ids(case, 32, 64).tolist()
    model.quantize([{"input_ids": row, "attention_mask": [1] * len(row)} for row in rows], batch_size=1)
    model.save(str(folder))
    return read(folder, case)


def read(folder: Path, case: dict[str, Any]) -> common.Weights:
    backend = getattr(BACKEND, case["backend"])
    loaded = GPTQModel.load(str(folder), backend=backend, device="cpu", dtype=torch.float16)
    return {
        f"{name}.weight": dequantized(module)
        for name, module in loaded.model.named_modules()
        if "gptqmodel.nn_modules.qlinear" in type(module).__module__
    }


def dequantized(module: Any) -> torch.Tensor:
    """[out, in]"""
    if hasattr(module, "dequantize_weight"):
        weight = module.dequantize_weight()
    else:
        inputs = torch.zeros(1, module.in_features)
        weight = module._dequantize_weight_for_inference(inputs, dtype=torch.float16)
    assert tuple(weight.shape) == (module.in_features, module.out_features)
    return weight.t()


common.main(write=write, read=read)
