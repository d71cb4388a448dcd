"""NVIDIA ModelOpt: calibrated and exported; its own tensor classes read the exported tensors."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import common
import modelopt.torch.quantization as mtq
import torch
from modelopt.torch.export import export_hf_checkpoint
from modelopt.torch.export.quant_utils import pack_int4_in_uint8
from modelopt.torch.quantization.qtensor import NVFP4QTensor
from modelopt.torch.quantization.qtensor.mxfp8_tensor import MXFP8QTensor


def write(folder: Path, case: dict[str, Any]) -> common.Weights:
    model = common.llama(case)
    config = copy.deepcopy(getattr(mtq, case["config"]))

    def calibrate(model: Any) -> None:
        with torch.no_grad():
            model(input_ids=common.token_ids(case, 4, 64))

    mtq.quantize(model, config, calibrate)
    export_hf_checkpoint(model, export_dir=str(folder))
    return read(folder, case)


def read(folder: Path, case: dict[str, Any]) -> common.Weights:
    stored = common.stored_tensors(folder)
    return {
        name: dequantized(name.removesuffix(".weight"), stored)
        for name, value in stored.items()
        if name.endswith(".weight") and value.dtype in (torch.uint8, torch.int8, torch.float8_e4m3fn)
    }


def dequantized(module: str, stored: common.Weights) -> torch.Tensor:
    weight, scale = stored[f"{module}.weight"], stored[f"{module}.weight_scale"]
    if weight.dtype == torch.uint8 and scale.dtype == torch.float8_e4m3fn:
        shape = torch.Size((weight.shape[0], weight.shape[1] * 2))
        sizes = {-1: shape[1] // scale.shape[1]}
        double = stored[f"{module}.weight_scale_2"]
        quantized = NVFP4QTensor(shape, torch.float32, weight)
        return quantized.dequantize(torch.float32, scale=scale, double_scale=double, block_sizes=sizes)
    if scale.dtype == torch.uint8:
        return MXFP8QTensor(weight.shape, torch.float32, weight).dequantize(torch.float32, scale=scale)
    if weight.dtype == torch.uint8:
        return four_bit_pairs(weight, scale.float())
    if scale.ndim == 4:
        n, k = (-(-extent // blocks) for extent, blocks in zip(weight.shape, scale.shape[::2], strict=True))
        scale = scale[:, 0, :, 0].repeat_interleave(n, 0).repeat_interleave(k, 1)
        return weight.float() * scale.float()[: weight.shape[0], : weight.shape[1]]
    return weight.float() * (scale.float()[:, None] if scale.ndim == 1 else scale.float())


def four_bit_pairs(weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """Two rows lie in a byte; the tool's own packer must give the same bytes again."""
    codes = torch.stack([weight & 15, weight >> 4], 1).reshape(-1, weight.shape[1]).to(torch.int8)
    group = codes.shape[1] // scale.shape[1]
    values = torch.where(codes > 7, codes - 16, codes).float() * scale.repeat_interleave(group, 1)
    assert torch.equal(pack_int4_in_uint8(values, scale, group), weight)
    return values


common.main(write=write, read=read)
