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
        "fewbit.formats.gptq",
        "GPTQ and GPTQModel: 2, 3, 4 and 8 bits, activation order, dynamic rules, serialized Marlin",
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
    "qqq": FormatInfo(
        "fewbit.formats.qqq", "QQQ of GPTQModel: 4-bit codes for 8-bit activations, groups of 128"
    ),
}
