"""transformers itself: plain weights, and FP8 by blocks, which it loads dequantized on a CPU."""

from __future__ import annotations

import json
import types
from pathlib import Path
from typing import Any

import common
import torch
import transformers
from safetensors.torch import save_file
from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize


def settings(block: list[int], **more: Any) -> Any:
    config = transformers.FineGrainedFP8Config(weight_block_size=tuple(block), **more)
    return types.SimpleNamespace(quantization_config=config)


def write(folder: Path, case: dict[str, Any]) -> common.Weights:
    """Its quantizer refuses a CPU as a whole, its operation does not. Sizes are whole blocks."""
    model, stored, found = common.llama(case), {}, {}
    quantize, dequantize = Fp8Quantize(settings(case["block"])), Fp8Dequantize(settings(case["block"]))
    linears = {f"{name}.weight" for name in common.linears(model)}
    for name, value in model.state_dict().items():
        if name not in linears:
            stored[name] = value
            continue
        made = quantize.convert({name: value})
        codes, scale = made[name], made[f"{name}_scale_inv"].float()
        stored |= {name: codes, f"{name}_scale_inv": scale}
        found[name] = dequantize._dequantize_one(codes, scale, torch.float32)
    folder.mkdir()
    kept = {name: value.contiguous().clone() for name, value in stored.items()}
    save_file(kept, str(folder / "model.safetensors"), metadata={"format": "pt"})
    said = {
        "quant_method": "fp8",
        "fmt": "e4m3",
        "activation_scheme": "dynamic",
        "weight_block_size": case["block"],
    }
    (folder / "config.json").write_text(json.dumps(common.llama_config(case) | {"quantization_config": said}))
    return found


def read(folder: Path, case: dict[str, Any]) -> common.Weights:
    """`plain`: every tensor of the file, embeddings and norms too."""
    more = {}
    if not case["plain"]:
        more["quantization_config"] = settings(case["block"], dequantize=True).quantization_config
    dtype = common.DTYPES[case["dtype"]]
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, **more)
    if case["plain"]:
        return dict(model.state_dict())
    return {f"{name}.weight": linear.weight for name, linear in common.linears(model).items()}


common.main(write=write, read=read)
