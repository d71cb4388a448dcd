"""Keys of config.json for the supported model types, declared one by one. A key that is not here is refused by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["count", "positive", "number", "bool", "string", "ids", "object", "strings", "whole", "any"]


@dataclass(frozen=True, slots=True)
class Key:
    """`default` fills in an absent key, as the model's own config class does; `only` lists the values that are implemented.

    Null counts as absent, unless the key is `nullable`: then it is a value of its own.
    """

    kind: Kind
    required: bool = False
    default: Any = None
    only: tuple[Any, ...] = ()
    nullable: bool = False


CORE: dict[str, Key] = {
    "model_type": Key("string", required=True),
    "architectures": Key("strings"),
    "vocab_size": Key("count", required=True),
    "hidden_size": Key("count", required=True),
    "intermediate_size": Key("count", required=True),
    "num_hidden_layers": Key("count", required=True),
    "num_attention_heads": Key("count", required=True),
    "num_key_value_heads": Key("count"),
    "head_dim": Key("count"),
    "hidden_act": Key("string", default="silu", only=("silu",)),
    "rms_norm_eps": Key("positive", default=1e-6),
    "max_position_embeddings": Key("count", required=True),
    "tie_word_embeddings": Key("bool", default=False),
    "rope_theta": Key("positive"),
    "rope_scaling": Key("object"),
    "rope_parameters": Key("object"),
    "bos_token_id": Key("ids"),
    "eos_token_id": Key("ids"),
    "pad_token_id": Key("ids"),
}

# How the model was made or saved, or how another library runs it: nothing here changes the numbers.
HARMLESS = frozenset({
    "_name_or_path", "transformers_version", "torch_dtype", "dtype", "use_cache", "initializer_range",
    "attention_dropout", "_attn_implementation", "_attn_implementation_autoset", "attn_implementation",
    "output_attentions", "output_hidden_states", "return_dict", "id2label", "label2id", "problem_type",
    "finetuning_task", "task_specific_params", "gradient_checkpointing", "unsloth_version", "unsloth_fixed",
    "transformers.js_config", "use_flash_attn", "prefix", "is_llama_config", "max_sequence_length",
})  # fmt: skip

# Keys that change the numbers, with the one value that does not (where the model type itself does not declare them).
NEUTRAL: dict[str, Any] = {
    "is_encoder_decoder": False, "add_cross_attention": False, "tie_encoder_decoder": False, "pruned_heads": {},
    "chunk_size_feed_forward": 0, "pretraining_tp": 1, "rope_interleaved": False, "use_mrope": False,
    "use_sliding_window": False, "is_decoder": False, "torchscript": False, "use_bfloat16": False,
    "attention_bias": False, "mlp_bias": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ModelType:
    """`architectures`: the class names that are served. `keys`: those beyond CORE."""

    name: str
    architectures: tuple[str, ...]
    keys: dict[str, Key] = field(default_factory=dict)


_BIAS = {"attention_bias": Key("bool", default=False)}
_QWEN_WINDOW = {
    "use_sliding_window": Key("bool", default=False),
    "sliding_window": Key("count"),
    "max_window_layers": Key("number"),
    "layer_types": Key("strings"),
}

MODEL_TYPES: dict[str, ModelType] = {
    m.name: m
    for m in (
        ModelType("llama", ("LlamaForCausalLM",), {**_BIAS, "mlp_bias": Key("bool", default=False)}),
        ModelType(
            "mistral",
            ("MistralForCausalLM",),
            {"sliding_window": Key("count", default=4096, nullable=True), "layer_types": Key("strings")},
        ),
        ModelType("qwen2", ("Qwen2ForCausalLM",), _QWEN_WINDOW),
        ModelType(
            "qwen3", ("Qwen3ForCausalLM",), {**_QWEN_WINDOW, **_BIAS, "head_dim": Key("count", required=True)}
        ),
    )
}

UNSERVED = frozenset({
    "qwen3_moe", "gpt_oss", "deepseek_v3", "deepseek_v4", "llama4_text", "bitnet",
    "mixtral", "minimax", "minimax_m2", "minimax_m3_vl_text", "phimoe",
})  # fmt: skip
"""Model types whose tensors are read and checked, but which no family serves yet; the family checks their config."""
