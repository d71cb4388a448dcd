"""Every format by name: the one table from which opening, `--quantization` and the documents are made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FormatInfo:
    """`module` is imported when asked for. `folder`: a Hugging Face folder, not a file of its own."""

    module: str
    summary: str
    folder: bool = True


@dataclass(frozen=True, slots=True)
class NarrowName:
    """A name of less than a format, or another spelling of it. `schemes`: patterns of which every quantized weight meets one."""

    format: str
    schemes: tuple[str, ...] = ()


FORMATS: dict[str, FormatInfo] = {
    "gguf": FormatInfo("fewbit.formats.gguf", "GGUF files of llama.cpp", folder=False),
    "plain": FormatInfo("fewbit.formats.plain", "Hugging Face folders of BF16, F16 or F32"),
    "gptq": FormatInfo(
        "fewbit.formats.gptq",
        "GPTQ and GPTQModel: 2, 3, 4 and 8 bits, activation order, dynamic rules, serialized Marlin",
    ),
    "fp8": FormatInfo(
        "fewbit.formats.fp8", "FP8 of DeepSeek and transformers: blocks, rows, tensors, MXFP8, experts of FP4"
    ),
    "w4afp8": FormatInfo(
        "fewbit.formats.w4afp8", "W4AFP8: experts of 4-bit integers, all else FP8 by blocks"
    ),
    "modelopt": FormatInfo(
        "fewbit.formats.modelopt", "ModelOpt: FP8, NVFP4, MXFP8, MXFP4, INT4 AWQ, INT8, mixed precision"
    ),
    "quark": FormatInfo(
        "fewbit.formats.quark", "Quark: FP8, INT8, INT4, MXFP4, MXFP6, MXFP8, NVFP4, specs by layer"
    ),
    "compressed-tensors": FormatInfo(
        "fewbit.formats.compressed_tensors",
        "compressed-tensors of llm-compressor: packed 2 to 8 bits, INT8, FP8, NVFP4, MXFP4, MXFP8, mixed, sparse",
    ),
    "awq": FormatInfo(
        "fewbit.formats.awq", "AWQ of AutoAWQ, GPTQModel and AutoRound: 4 bits with zero points"
    ),
    "auto_round": FormatInfo(
        "fewbit.formats.auto_round", "AutoRound: 2, 3, 4 and 8 bits packed as GPTQ or AWQ, FP8, MXFP4, NVFP4"
    ),
    "modelslim": FormatInfo(
        "fewbit.formats.modelslim", "msModelSlim for Ascend: W8A8, W8A16, W4A16, W4A4, MXFP8, MXFP4"
    ),
    "mlx": FormatInfo(
        "fewbit.formats.mlx", "MLX: affine 2 to 8 bits, MXFP4, MXFP8, NVFP4, settings per module"
    ),
    "bitsandbytes": FormatInfo("fewbit.formats.bitsandbytes", "bitsandbytes: NF4, FP4, LLM.int8()"),
    "torchao": FormatInfo(
        "fewbit.formats.torchao", "torchao in safetensors: INT8, FP8, unpacked 1 to 8 bits"
    ),
    "bitnet": FormatInfo(
        "fewbit.formats.bitnet", "BitNet of transformers: packed ternary weights, or made ternary when read"
    ),
    "fp_quant": FormatInfo("fewbit.formats.fp_quant", "FP-Quant: MXFP4 and NVFP4 of rotated activations"),
    "mxfp4": FormatInfo("fewbit.formats.mxfp4", "MXFP4 of gpt-oss: stacked experts"),
    "w8a8": FormatInfo("fewbit.formats.w8a8", "w8a8_int8, w8a8_fp8, blockwise_int8"),
    "vptq": FormatInfo(
        "fewbit.formats.vptq", "VPTQ: vectors of rows from codebooks, residuals, outliers, ordered columns"
    ),
    "aqlm": FormatInfo(
        "fewbit.formats.aqlm", "AQLM: additive codebooks of up to 16 bits for runs and tiles of weights"
    ),
    "quip": FormatInfo(
        "fewbit.formats.quip",
        "QuIP# and QuIP-for-all: codes of the lattice E8 in a rotated basis, 2 to 4 bits",
    ),
    "qqq": FormatInfo(
        "fewbit.formats.qqq", "QQQ of GPTQModel: 4-bit codes for 8-bit activations, groups of 128"
    ),
    "qoq": FormatInfo("fewbit.formats.qoq", "QoQ of QServe: 4-bit codes, scales by row or in two levels"),
    "hqq": FormatInfo("fewbit.formats.hqq", "HQQ in safetensors: 1 to 8 bits, groups along either axis"),
}

NARROW_NAMES: dict[str, NarrowName] = {
    "auto-round": NarrowName("auto_round"),
    "compressed_tensors": NarrowName("compressed-tensors"),
    "w8a8_int8": NarrowName("w8a8", ("i8channel",)),
    "w8a8_fp8": NarrowName("w8a8", ("e4m3channel",)),
    "blockwise_int8": NarrowName("w8a8", ("i8b*",)),
    "modelopt_fp8": NarrowName("modelopt", ("e4m3tensor", "e4m3channel")),
    "modelopt_fp4": NarrowName("modelopt", ("e2m1g16s",)),
    "modelopt_mxfp8": NarrowName("modelopt", ("e4m3g32",)),
}
"""What other engines call it, where that says something of the checkpoint that can be checked."""

KERNEL_NAMES = frozenset({
    "marlin", "gptq_marlin", "awq_marlin", "gptq_marlin_24", "fp8_marlin", "gptq_bitblas", "bitblas", "exllama", "exllamav2",
    "machete", "cutlass", "moe_wna16", "ipex",
})  # fmt: skip
"""Kernels of other engines, which they offer beside formats: nothing that a checkpoint is."""
