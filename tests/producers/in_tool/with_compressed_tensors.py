"""compressed-tensors: scales by its own min-max rule, packed by its compressors; read back through transformers."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import common
import compressed_tensors.compressors.nvfp4.base as nvfp4
import torch
import transformers
from compressed_tensors.compressors import BaseCompressor, ModelCompressor
from compressed_tensors.quantization import (
    QuantizationArgs,
    QuantizationConfig,
    QuantizationScheme,
    QuantizationStatus,
    apply_quantization_config,
)
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam

HALF = (torch.bfloat16, torch.float16)
# decompression of NVFP4 is written for bf16; the same function can give float32
nvfp4.unpack_fp4_from_uint8 = functools.partial(nvfp4.unpack_fp4_from_uint8, dtype=torch.float32)


def write(folder: Path, case: dict[str, Any]) -> common.Weights:
    model = common.llama(case)
    inputs = QuantizationArgs(**case["inputs"]) if case.get("inputs") else None
    scheme = QuantizationScheme(
        targets=["Linear"],
        weights=QuantizationArgs(dynamic=False, **case["weights"]),
        input_activations=inputs,
    )
    config = QuantizationConfig(
        config_groups={"group_0": scheme}, ignore=["lm_head"], quantization_status=QuantizationStatus.FROZEN
    )
    apply_quantization_config(model, config)
    for linear in common.linears(model).values():
        set_scales(linear)
    compressor = ModelCompressor.from_pretrained_model(model, quantization_format=case.get("format"))
    compressor.compress_model(model)
    model.save_pretrained(folder)
    compressor.update_config(str(folder))
    return decompressed(folder)


def set_scales(linear: Any) -> None:
    args, weight = linear.quantization_scheme.weights, linear.weight.data
    rows = weight.reshape(weight.shape[0], -1, args.group_size) if args.group_size else weight[:, None]
    if args.strategy == "block":
        n, k = args.block_structure
        padded = torch.nn.functional.pad(weight, (0, -weight.shape[1] % k, 0, -weight.shape[0] % n))
        rows = padded.reshape(padded.shape[0] // n, n, -1, k).transpose(1, 2).flatten(2)
    least, most = rows.amin(-1), rows.amax(-1)
    if args.strategy == "tensor":
        least, most = weight.amin().reshape(1), weight.amax().reshape(1)
    gparam = None
    if getattr(linear, "weight_global_scale", None) is not None:
        gparam = generate_gparam(weight.amin().reshape(1), weight.amax().reshape(1))
        linear.weight_global_scale.data = gparam
    scale, zero = calculate_qparams(least, most, args, global_scale=gparam)
    linear.weight_scale.data = scale.to(linear.weight_scale.dtype).reshape(linear.weight_scale.shape)
    stored = getattr(linear, "weight_zero_point", None)
    if stored is not None:
        stored.data = zero.reshape(stored.shape).to(stored.dtype)
    for name in ("input_scale", "input_global_scale"):
        if getattr(linear, name, None) is not None:
            getattr(linear, name).data.fill_(0.5)


def decompressed(folder: Path) -> common.Weights:
    """In float32, by the compressors' `decompress` of the tensors on disk."""
    config = json.loads((folder / "config.json").read_text())["quantization_config"]
    (scheme,) = QuantizationConfig.model_validate(config).config_groups.values()
    compressor = BaseCompressor.get_value_from_registry(config["format"])
    modules: dict[str, common.Weights] = {}
    for name, value in common.stored_tensors(folder).items():
        module, leaf = name.rsplit(".", 1)
        modules.setdefault(module, {})[leaf] = value.float() if value.dtype in HALF else value
    return {
        f"{name}.weight": compressor.decompress(leaves, scheme)["weight"]
        for name, leaves in modules.items()
        if "weight_scale" in leaves
    }


def read(folder: Path, case: dict[str, Any]) -> common.Weights:
    """By the compressors, and, where the case names a dtype, as transformers loads it: the first step decompresses."""
    expected = decompressed(folder)
    if case["transformers"]:
        dtype = common.DTYPES[case["transformers"]]
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=dtype)
        model(input_ids=torch.zeros(1, 4, dtype=torch.int64))
        linears = {f"{name}.weight": linear.weight for name, linear in common.linears(model).items()}
        assert linears.keys() == expected.keys()
        assert all(torch.equal(linears[name].float(), expected[name].float()) for name in linears)
    return expected


common.main(write=write, read=read)
