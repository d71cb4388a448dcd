"""bitsandbytes, through transformers: its own dequantization of the model's weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import bitsandbytes
import common
import torch
import transformers


def write(folder: Path, case: dict[str, Any]) -> common.Weights:
    source = common.save_llama(folder.with_name(f"{folder.name}-plain"), case)
    settings = dict(case["settings"])
    if "bnb_4bit_quant_storage" in settings:
        settings["bnb_4bit_quant_storage"] = getattr(torch, settings["bnb_4bit_quant_storage"])
    model = load(source, case, quantization_config=transformers.BitsAndBytesConfig(**settings))
    model.save_pretrained(folder)
    return dequantized(model)


def read(folder: Path, case: dict[str, Any]) -> common.Weights:
    return dequantized(load(folder, case))


def load(folder: Path, case: dict[str, Any], **more: Any) -> Any:
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=common.DTYPES[case["dtype"]], device_map="cpu", **more
    )


def dequantized(model: Any) -> common.Weights:
    found: common.Weights = {}
    for name, module in model.named_modules():
        weight = getattr(module, "weight", None)
        if isinstance(module, bitsandbytes.nn.Linear4bit):
            state = weight.quant_state
            found[f"{name}.weight"] = bitsandbytes.functional.dequantize_4bit(weight.data, state)
        elif isinstance(module, bitsandbytes.nn.Linear8bitLt):
            found[f"{name}.weight"] = bitsandbytes.functional.int8_vectorwise_dequant(weight.data, weight.SCB)
    return found


common.main(write=write, read=read)
