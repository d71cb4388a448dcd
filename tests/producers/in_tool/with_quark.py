"""AMD Quark: quantized by its templates, exported, and imported again in float32."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import common
from quark.torch import LLMTemplate, ModelQuantizer, export_safetensors, import_model_from_safetensors
from torch.utils.data import DataLoader


def write(folder: Path, case: dict[str, Any]) -> common.Weights:
    # it copies the configuration from the folder that the model came from
    source = common.save_llama(folder.with_name(f"{folder.name}-plain"), case)
    model = load(source, "bf16")
    quantizer = ModelQuantizer(LLMTemplate.get("llama").get_config(scheme=case["scheme"], **case["settings"]))
    rows = DataLoader(common.token_ids(case, 8, 32), batch_size=4)
    model = quantizer.freeze(quantizer.quantize_model(model, rows))
    export_safetensors(model, str(folder), **case["export"])
    imported = import_model_from_safetensors(load(source, "f32"), str(folder), device="cpu")
    return {
        f"{name}.weight": module._get_qweight(module.weight)
        for name, module in imported.named_modules()
        if type(module).__name__ == "QParamsLinear"
    }


def load(folder: Path, dtype: str) -> Any:
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=common.DTYPES[dtype], attn_implementation="eager"
    )


common.main(write=write)
