"""One line a checkpoint: what is compared, and how closely.

weights   "exact"  bit-equal to the tool's, whole (sha256)
          "f16"    the tool dequantizes in float16: our f32 rounded to float16 is bit-equal, whole
          "f16 product"  that float16 weight, taken out of the tool's layer with an identity matrix: zeros lose their sign
          "bf16"   the same with bfloat16
          "zero"   the tool's table of FP4 has no negative zero: with +0 for -0 bit-equal, whole
          a Close  the tool's own arithmetic rounds otherwise: largest relative difference, with the reason
logits    name of the reference; "" where no family serves the model type yet
"""

from __future__ import annotations

from dataclasses import dataclass

LOGITS = 2e-4  # absolute, where the standard deviation is 1: both sides sum in f32, in different orders


@dataclass(frozen=True)
class Close:
    """|ours - theirs| <= relative * |theirs| + absolute."""

    why: str
    relative: float
    absolute: float = 0.0


@dataclass(frozen=True)
class Check:
    """`format` by name, and what is compared."""

    format: str
    weights: str | Close = "exact"
    logits: str = "logits"
    logits_within: float = LOGITS


GPTQ = Check("gptq", "f16")  # TorchLinear.dequantize_weight with dtype float16
AWQ = Check("awq", "f16")
GGUF = Check("gguf")
MODELOPT = Check("modelopt")
QUARK = Check("quark", logits="logits_weight_only")
CT = Check("compressed-tensors")
CT_SIGNS = Close("the tool's quantized zeros keep their sign, codes have none", 0.0)
CT_NVFP4 = Close(
    "the tool divides by the global scale, we multiply by its reciprocal: two roundings", 2.0**-22
)
CT_W = Check("compressed-tensors", logits="logits_weight_only")  # its `logits` quantize activations too
BNB_INT8 = Close(
    "int8_vectorwise_dequant multiplies by SCB, then by 1 / 127: two roundings where we have one before",
    2**-22,
)

CHECKS: dict[str, Check] = {
    "base-llama": Check("plain"),
    "deepseek-v3-fp8-block": Check("fp8", logits=""),
    "qwen3-moe-fp8-block": Check("fp8", logits=""),
    "mo-fp8-kvfp8": MODELOPT,
    "mo-fp8-pb-wo": MODELOPT,
    "mo-int4-awq": MODELOPT,
    "mo-int8-sq": MODELOPT,
    "mo-mixed-fp8-nvfp4": Check("modelopt", "zero"),
    "mo-moe-nvfp4": Check("modelopt", "zero", logits=""),
    "mo-mxfp8": MODELOPT,
    "mo-nvfp4-kvfp8": Check("modelopt", "zero"),
    "mo-nvfp4-kvnvfp4": Check("modelopt", "zero"),
    "mo-w4a8-awq": MODELOPT,
    "quark-fp8-kvfp8": QUARK,
    "quark-int4-wo-128": QUARK,
    "quark-int8": QUARK,
    "quark-mixed": QUARK,
    "quark-mxfp4": QUARK,
    "quark-mxfp6-e2m3": QUARK,
    "quark-nvfp4": QUARK,
    "quark-ptpc-fp8": QUARK,
    "quark-uint4-wo-32": QUARK,
    "gguf-convert-qwen3moe-q8_0": Check("gguf", logits=""),
    "gguf-convert-gpt-oss-mxfp4": Check(
        "gguf", Close("ggml reads the MXFP4 code of -0 as +0: the same number in other bits", 0.0), logits=""
    ),
    "gpt-oss-mxfp4": Check("mxfp4", logits=""),
    "gptq-dynamic-mixed": GPTQ,
    "gptq-lmhead": GPTQ,
    "gptq-moe-w4-g64": Check("gptq", "f16", logits=""),
    "gptq-p-w3-g128-sym": GPTQ,
    "gptq-v2-w4-g32-asym": GPTQ,
    "gptq-w2-g32-asym": GPTQ,
    "gptq-w3-g128-sym": GPTQ,
    "gptq-w4-g128-sym": GPTQ,
    "gptq-w4-g128-sym-descact": GPTQ,
    "gptq-w4-g32-asym": GPTQ,
    "gptq-w8-channel-asym": GPTQ,
    "ct-fp8-block": CT_W,
    "ct-fp8-dynamic": CT_W,
    "ct-fp8-static-kvfp8": CT_W,
    "ct-legacy-actorder-group": Check("compressed-tensors", CT_SIGNS),
    "ct-legacy-marlin24-w4": Check("compressed-tensors", CT_SIGNS),
    "ct-legacy-sparse-bitmask": CT,
    "ct-legacy-sparse24-dense": CT,
    "ct-legacy-sparse24-fp8": CT,
    "ct-mixed-precision": CT_W,
    "ct-moe-nvfp4": Check("compressed-tensors", CT_NVFP4, logits=""),
    "ct-moe-w4a16-g32": Check("compressed-tensors", logits=""),
    "ct-mxfp4": CT_W,
    "ct-mxfp8": CT_W,
    "ct-nvfp4": Check("compressed-tensors", CT_NVFP4, "logits_weight_only"),
    "ct-w2a16-pack": CT,
    "ct-w3a16-pack": CT,
    "ct-w4a16-asym-pack": CT,
    "ct-w4a16-pack": CT,
    # its `logits` were reloaded without the rotations; the model in memory has them, in bfloat16
    "ct-w4a16-quip-hadamard": Check("compressed-tensors", logits="logits_in_memory_bf16", logits_within=0.08),
    "ct-w4a8-int": CT_W,
    "ct-w4afp8": CT_W,
    "ct-w8a16-embed-lmhead": Check("compressed-tensors", "bf16"),  # weights of the model in memory
    "ct-w8a8-int": CT_W,
    "ct-w8a8-int-static-asym": CT_W,
    "awq-gemm-w4-g32": AWQ,
    "autoawq-gemm-w4-g128": AWQ,
    "ar-w4a16-auto-awq": Check("awq"),
    "ar-w4a16-auto-round": Check("auto_round", "f16 product"),
    "ar-w3a16-auto-round": Check("auto_round", "f16 product"),
    "ar-mixed-bits": Check("auto_round", "f16 product"),
    "ar-fp8-static": Check("auto_round", Close("the tool rounds scale and product to bf16, 2^-9 each", 3 * 2**-9), logits_within=0.03),
    "ar-mxfp4": Check("auto_round", "bf16"),
    "ar-nvfp4": Check("auto_round", Close("the tool divides by the global scale in f32, we multiply by its reciprocal", 2**-23)),
    "autoawq-gemv-w4-g128": AWQ,
    "autoawq-gemv-fast-w4-g128": Check("awq", Close("the file holds scale * zero point rounded to f16; the tool's weight is from before", 2**-11, 2**-12), logits_within=0.02),
    "ascend-w4a16-g64": Check("modelslim"),
    "ascend-w8a8": Check("modelslim"),
    "ascend-w8a8-dynamic": Check("modelslim"),
    "autoawq-marlin-w4-g128": Check("awq", Close("the tool rounds to float16, and its zeros keep the sign that codes lose", 2**-11), logits_within=0.01),
    "qqq-w4-g128": Check("qqq", Close("the tool's loader rounds s_channel to float16", 2**-11), logits_within=0.005),
    **{f"gguf-q{kind}": GGUF for kind in ("2_k", "3_k", "4_0", "4_1", "4_k", "4_k_m-like", "5_0", "5_1", "5_k", "6_k", "8_0")},
    **{f"mlx-{kind}": Check("mlx") for kind in ("mixed-4-6", "mxfp4", "nvfp4", "q2-g128", "q3-g64", "q4-g64", "q5-g64", "q6-g64", "q8-g32")},
    "bnb-int8": Check("bitsandbytes", BNB_INT8),
    "bnb-nf4": Check("bitsandbytes", "bf16"),  # dequantize_4bit gives the dtype of the quant_state
    "bnb-nf4-double": Check("bitsandbytes", "bf16"),
    **{f"torchao-{kind}": Check("torchao", "bf16") for kind in ("float8-wo", "int8-dyn", "int8-wo", "intx-int4")},  # dequantize gives bf16
    **{f"gguf-q{kind}": GGUF for kind in ("2_k", "3_k", "4_0", "4_1", "4_k", "4_k_m-like", "5_0", "5_1", "5_k", "6_k", "8_0", "1_0")},
    **{f"gguf-iq{kind}": GGUF for kind in ("1_m", "1_s", "2_s", "2_xs", "2_xxs", "3_s", "3_xxs")},
    **{f"gguf-{kind}": GGUF for kind in ("iq4_nl", "iq4_xs", "mxfp4", "nvfp4", "tq1_0", "tq2_0")},
}  # fmt: skip

KEPT_WHOLE = frozenset({"gguf-q2_k", "mlx-q2-g128", "gptq-w2-g32-asym", "ct-w2a16-pack", "mo-int4-awq"})
"""Checkpoints whose files all lie in the subset of a clone, with their logits."""

NO_REFERENCE = "base-llama"
"""Not quantized: its weights are compared with nothing but themselves, through the logits."""

REFUSED: dict[str, str] = {"hqq-native-w4-g64": "pickle"}
"""Checkpoints that are never opened, with a word of the reason."""
