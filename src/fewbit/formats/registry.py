"""Every format by name: the one table from which opening, `--quantization` and the documents are made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FormatInfo:
    """`module` is imported when asked for. `folder`: a Hugging Face folder, not a file of its own."""

    module: str
    summary: str
    folder: bool = True


FORMATS: dict[str, FormatInfo] = {
    "gguf": FormatInfo("fewbit.formats.gguf", "GGUF files of llama.cpp", folder=False),
    "plain": FormatInfo("fewbit.formats.plain", "Hugging Face folders of BF16, F16 or F32"),
    "gptq": FormatInfo(
        "fewbit.formats.gptq", "GPTQ and GPTQModel: 2, 3, 4 and 8 bits, activation order, dynamic rules"
    ),
    "mlx": FormatInfo(
        "fewbit.formats.mlx", "MLX: affine 2 to 8 bits, MXFP4, MXFP8, NVFP4, settings per module"
    ),
    "bitsandbytes": FormatInfo("fewbit.formats.bitsandbytes", "bitsandbytes: NF4, FP4, LLM.int8()"),
    "torchao": FormatInfo(
        "fewbit.formats.torchao", "torchao in safetensors: INT8, FP8, unpacked 1 to 8 bits"
    ),
    "w8a8": FormatInfo("fewbit.formats.w8a8", "w8a8_int8, w8a8_fp8, blockwise_int8"),
}
