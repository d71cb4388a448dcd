"""AutoRound: quantized without tuning steps, read back through transformers as the layer's product with the identity."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import common
import torch
import transformers
from auto_round import AutoRound


def write(folder: Path, case: dict[str, Any]) -> common.Weights:
    rounder = AutoRound(
        common.llama(case), common.tokenizer(), scheme=case["scheme"], iters=0, nsamples=4, seqlen=32, batch_size=1,
        dataset=[row[None] for row in common.token_ids(case, 4, 32)], device_map="cpu", enable_torch_compile=False,
        low_cpu_mem_usage=False, **case["settings"],
    )  # fmt: skip
    rounder.quantize()
    made = folder.with_name(f"{folder.name}-made")
    rounder.save_quantized(str(made), format="auto_round")
    shutil.move(next(made.rglob("*.safetensors")).parent, folder)
    return read(folder, case)


def read(folder: Path, case: dict[str, Any]) -> common.Weights:
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, device_map="cpu", dtype=torch.float32)
    found: common.Weights = {}
    for name, module in model.named_modules():
        if hasattr(module, "qweight"):
            inputs = torch.eye(module.in_features if hasattr(module, "in_features") else module.infeatures)
            found[f"{name}.weight"] = module(inputs).t()
        elif hasattr(module, "dequant_weight_online"):
            found[f"{name}.weight"] = module.dequant_weight_online()
    return found


common.main(write=write, read=read)
