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
    "fp8": FormatInfo("fewbit.formats.fp8", "FP8 of DeepSeek and transformers: blocks, rows, tensors, MXFP8"),
    "modelopt": FormatInfo(
        "fewbit.formats.modelopt", "ModelOpt: FP8, NVFP4, MXFP8, MXFP4, INT4 AWQ, INT8, mixed precision"
    ),
    "quark": FormatInfo(
        "fewbit.formats.quark", "Quark: FP8, INT8, INT4, MXFP4, MXFP6, MXFP8, NVFP4, specs by layer"
    ),
    "mxfp4": FormatInfo("fewbit.formats.mxfp4", "MXFP4 of gpt-oss: stacked experts"),
}
