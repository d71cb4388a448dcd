"""Metadata keys of the supported architectures, declared one by one. A key that is not here is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["count", "positive", "float", "bool", "string"]


@dataclass(frozen=True, slots=True)
class Key:
    """`suffix` follows `<architecture>.`; `config` is the Hugging Face key it becomes.

    A key without one is either read by `config.py` itself or must hold one of the values in `only`, the ones that change
    nothing; any other value asks for something that is not implemented.
    """

    suffix: str
    kind: Kind
    config: str = ""
    required: bool = False
    only: tuple[Any, ...] = ()


COMMON = (
    Key("block_count", "count", "num_hidden_layers", required=True),
    Key("context_length", "count", "max_position_embeddings", required=True),
    Key("embedding_length", "count", "hidden_size", required=True),
    Key("feed_forward_length", "count", "intermediate_size", required=True),
    Key("attention.head_count", "count", "num_attention_heads", required=True),
    Key("attention.head_count_kv", "count"),
    Key("attention.key_length", "count"),
    Key("attention.value_length", "count"),
    Key("attention.layer_norm_rms_epsilon", "positive", "rms_norm_eps", required=True),
    Key("attention.causal", "bool", only=(True,)),
    Key("attention.sliding_window", "count"),
    Key("vocab_size", "count"),
    Key("rope.freq_base", "positive"),
    Key("rope.dimension_count", "count"),
    Key("rope.scale_linear", "positive"),
    Key("rope.scaling.type", "string"),
    Key("rope.scaling.factor", "positive"),
    Key("rope.scaling.original_context_length", "count"),
    Key("rope.scaling.finetuned", "bool"),  # says how the model was made, not how to run it
    Key("rope.scaling.attn_factor", "positive"),
    Key("rope.scaling.yarn_attn_factor", "positive"),
    Key("rope.scaling.yarn_ext_factor", "float", only=(1.0,)),
    Key("rope.scaling.yarn_beta_fast", "positive"),
    Key("rope.scaling.yarn_beta_slow", "positive"),
    Key("expert_count", "float", only=(0,)),
    Key("expert_used_count", "float", only=(0,)),
    Key(
        "tensor_data_layout", "string", only=("Meta AI original pth",)
    ),  # the row order that every llama GGUF has
    Key("pooling_type", "float", only=(0,)),
)


def with_experts(*keys: Key) -> tuple[Key, ...]:
    """COMMON, in which the keys of experts mean something."""
    replaced = {key.suffix for key in keys}
    return (*(key for key in COMMON if key.suffix not in replaced), *keys)


@dataclass(frozen=True, slots=True)
class Architecture:
    """What differs between the families.

    permuted        rows of q and k are stored for rotation of adjacent pairs; canonical order rotates halves
    biases          projections that may have a bias
    qk_norm         q and k are normalized per head
    bias_flags      Hugging Face keys that say whether the biases of some projections exist: (key, projections)
    experts         the Hugging Face key of their number; their projections are stacked, [experts, N, K]; "": a dense MLP
    names           further tensors of a layer, by canonical name after the layer's own
    fixed, rope     Hugging Face keys that the architecture implies, and those within rope_scaling
    alternating_windows   every other layer sees a sliding window only, beginning with the first
    """

    name: str
    model_type: str
    permuted: bool = False
    biases: frozenset[str] = frozenset()
    qk_norm: bool = False
    bias_flags: tuple[tuple[str, frozenset[str]], ...] = ()
    keys: tuple[Key, ...] = COMMON
    experts: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    fixed: Mapping[str, Any] = field(default_factory=dict)
    rope: Mapping[str, Any] = field(default_factory=dict)
    alternating_windows: bool = False


_ATTENTION = frozenset({"attn_q", "attn_k", "attn_v", "attn_output"})
_MLP = frozenset({"ffn_gate", "ffn_up", "ffn_down"})
_EXPERTS = frozenset({"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"})

ARCHITECTURES: dict[str, Architecture] = {
    a.name: a
    for a in (
        Architecture(
            "llama", "llama", permuted=True, biases=_ATTENTION | _MLP,
            bias_flags=(("attention_bias", _ATTENTION), ("mlp_bias", _MLP)),
        ),
        Architecture("qwen2", "qwen2", biases=frozenset({"attn_q", "attn_k", "attn_v"})),
        Architecture("qwen3", "qwen3", biases=_ATTENTION, qk_norm=True, bias_flags=(("attention_bias", _ATTENTION),)),
        Architecture(
            "qwen3moe", "qwen3_moe", biases=_ATTENTION, qk_norm=True, bias_flags=(("attention_bias", _ATTENTION),),
            keys=with_experts(
                Key("expert_count", "count", "num_experts", required=True),
                Key("expert_used_count", "count", "num_experts_per_tok", required=True),
                Key("expert_feed_forward_length", "count", "moe_intermediate_size", required=True),
            ),
            experts="num_experts", names={"ffn_gate_inp.weight": "mlp.gate.weight"},
            fixed={"norm_topk_prob": True, "decoder_sparse_step": 1, "mlp_only_layers": []},
        ),
        Architecture(
            "gpt-oss", "gpt_oss", biases=_ATTENTION | _EXPERTS, bias_flags=(("attention_bias", _ATTENTION),),
            keys=with_experts(
                Key("expert_count", "count", "num_local_experts", required=True),
                Key("expert_used_count", "count", "num_experts_per_tok", required=True),
                Key("expert_feed_forward_length", "count", "intermediate_size", required=True),
            ),
            experts="num_local_experts",
            names={
                "ffn_gate_inp.weight": "mlp.router.weight", "ffn_gate_inp.bias": "mlp.router.bias",
                "post_attention_norm.weight": "post_attention_layernorm.weight", "attn_sinks.weight": "self_attn.sinks",
            },
            fixed={"swiglu_alpha": 1.702, "swiglu_limit": 7.0}, rope={"truncate": False}, alternating_windows=True,
        ),
    )
}  # fmt: skip
