"""The llama family's config: what each member means by Hugging Face's keys, its defaults, and what is refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from fewbit.layers.rope import Rope
from fewbit.models.config import IGNORED, Key, read_config
from fewbit.spec.refusal import CheckpointError

KEYS = (
    Key("hidden_size", int, least=1),
    Key("intermediate_size", int, least=1),
    Key("num_hidden_layers", int, least=1),
    Key("num_attention_heads", int, least=1),
    Key("num_key_value_heads", int, None, least=1),
    Key("head_dim", int, None, least=2),
    Key("vocab_size", int, least=1),
    Key("max_position_embeddings", int, least=1),
    Key("rms_norm_eps", float, 1e-6, least=0.0),
    Key("rope_theta", float, None, least=1.0),
    Key("rope_scaling", dict, None),
    Key("rope_parameters", dict, None),  # the later name of rope_scaling, with rope_theta inside
    Key("partial_rotary_factor", float, None, least=0.0),
    Key("rope_interleaved", bool, False, only=(False,)),
    Key("original_max_position_embeddings", int, None),
    Key("use_mrope", bool, False, only=(False,)),
    Key("is_encoder_decoder", bool, False, only=(False,)),
    Key("add_cross_attention", bool, False, only=(False,)),
    Key("tie_word_embeddings", bool, False),
    Key("attention_bias", bool, None),
    Key("mlp_bias", bool, None),
    Key("hidden_act", str, "silu", only=("silu", "swish")),
    Key("sliding_window", int, None),
    Key("use_sliding_window", bool, False),
    Key("max_window_layers", int, None),
    Key("layer_types", list, None),
)


@dataclass(frozen=True, slots=True)
class Member:
    """How a model_type differs. `bias`: (q, k, v; o) always there or never, None = as attention_bias says."""

    bias: tuple[bool, bool] | None = None
    mlp_bias: bool | None = False
    qk_norm: bool = False
    head_dim: int | None = None  # None: hidden_size / heads
    window: str = "never"  # "always": sliding_window unless null; "by_layer": use_sliding_window, from max_window_layers on


MEMBERS = {
    "llama": Member(mlp_bias=None),
    "mistral": Member(bias=(False, False), window="always"),
    "qwen2": Member(bias=(True, False), window="by_layer"),
    "qwen3": Member(qk_norm=True, head_dim=128, window="by_layer"),
}
MISTRAL_WINDOW = 4096  # where a Mistral config says nothing; later ones say null
QWEN_WINDOW_LAYERS = 28


@dataclass(frozen=True, slots=True)
class LlamaConfig:
    hidden_size: int
    intermediate_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    max_position_embeddings: int
    eps: float
    rope: Rope
    tied: bool
    qkv_bias: tuple[bool, bool, bool]
    o_bias: bool
    mlp_bias: bool
    qk_norm: bool
    windows: tuple[int, ...]  # of each layer; 0 = all tokens are seen
    ignored_tensors: Mapping[str, str]


def parse(model_type: str, config: Mapping[str, Any], tensors: Collection[str]) -> LlamaConfig:
    """`tensors` are the checkpoint's names: they decide on biases where the config does not speak of them."""
    member, c = MEMBERS[model_type], read_config(config, KEYS, IGNORED)
    heads, kv_heads = c["num_attention_heads"], c["num_key_value_heads"] or c["num_attention_heads"]
    head_dim = c["head_dim"] or member.head_dim or c["hidden_size"] // heads
    if heads % kv_heads:
        raise CheckpointError(
            f"config has num_attention_heads = {heads}, no multiple of num_key_value_heads = {kv_heads}"
        )
    qkv_bias, o_bias = _biases(member, c["attention_bias"], tensors)
    mlp = "model.layers.0.mlp.down_proj.bias" in tensors if c["mlp_bias"] is None else c["mlp_bias"]
    ignored = {
        f"model.layers.{i}.self_attn.rotary_emb.inv_freq": "computed from rope_theta"
        for i in range(c["num_hidden_layers"])
    }
    if c["tie_word_embeddings"]:
        ignored["lm_head.weight"] = "the config ties it to the embedding"
    return LlamaConfig(
        hidden_size=c["hidden_size"],
        intermediate_size=c["intermediate_size"],
        layers=c["num_hidden_layers"],
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab_size=c["vocab_size"],
        max_position_embeddings=c["max_position_embeddings"],
        eps=c["rms_norm_eps"],
        rope=_rope(c, head_dim),
        tied=c["tie_word_embeddings"],
        qkv_bias=qkv_bias,
        o_bias=o_bias,
        mlp_bias=mlp if member.mlp_bias is None else member.mlp_bias,
        qk_norm=member.qk_norm,
        windows=_windows(c, member, config),
        ignored_tensors=ignored,
    )


def _biases(
    member: Member, stated: bool | None, tensors: Collection[str]
) -> tuple[tuple[bool, bool, bool], bool]:
    """Of q, k, v and o. Where nothing states them, each has one if the first layer has: a projection may lack its own."""
    if member.bias is not None:
        return (member.bias[0],) * 3, member.bias[1]
    if stated is not None:
        return (stated,) * 3, stated
    q, k, v, o = (f"model.layers.0.self_attn.{part}_proj.bias" in tensors for part in "qkvo")
    return (q, k, v), o


def _rope(c: Mapping[str, Any], head_dim: int) -> Rope:
    """rope_parameters (with rope_theta inside) is the later form of rope_scaling."""
    scaling = dict(c["rope_parameters"] or c["rope_scaling"] or {})
    if c["original_max_position_embeddings"] is not None:
        scaling["original_max_position_embeddings"] = c["original_max_position_embeddings"]
    rope_type = scaling.get("rope_type", scaling.get("type", "default"))
    if rope_type in ("llama3", "yarn"):
        scaling.setdefault("original_max_position_embeddings", c["max_position_embeddings"])
    factor = scaling.get("partial_rotary_factor")
    partial = factor if factor is not None else c["partial_rotary_factor"]
    theta = scaling.get("rope_theta", c["rope_theta"])
    dim = int(head_dim * (1.0 if partial is None else partial))
    if dim % 2 or not 0 < dim <= head_dim:
        raise CheckpointError(
            f"partial_rotary_factor = {partial!r} rotates {dim} of {head_dim} elements; expected an even number"
        )
    rope = Rope(dim, float(10000.0 if theta is None else theta), scaling)
    rope.check()
    return rope


def _windows(c: Mapping[str, Any], member: Member, config: Mapping[str, Any]) -> tuple[int, ...]:
    layers, window = c["num_hidden_layers"], c["sliding_window"]
    if window is not None and window < 1:
        raise CheckpointError(f"config has sliding_window = {window!r}; expected null or at least 1")
    match member.window:
        case "always":
            if c["layer_types"]:
                raise CheckpointError(
                    f"config has layer_types = {c['layer_types']!r}, which {config.get('model_type', 'this')} does not use"
                )
            window = window if "sliding_window" in config else MISTRAL_WINDOW
            return (window or 0,) * layers
        case "by_layer" if c["use_sliding_window"] and window:
            first = QWEN_WINDOW_LAYERS if c["max_window_layers"] is None else c["max_window_layers"]
            types = c["layer_types"] or ["full_attention"] * min(first, layers) + ["sliding_attention"] * (
                layers - first
            )
        case "never" if window:
            raise CheckpointError(
                f"config has sliding_window = {window!r}, which this architecture does not use; expected null"
            )
        case _:
            types = c["layer_types"] or ["full_attention"] * layers
    return _windows_by_type(types, layers, window if c["use_sliding_window"] else None)


def _windows_by_type(types: list[str], layers: int, window: int | None) -> tuple[int, ...]:
    if len(types) != layers:
        raise CheckpointError(f"config has {len(types)} layer_types for {layers} layers")
    sizes = {"full_attention": 0, "sliding_attention": window}
    for name in types:
        if sizes.get(name) is None:
            raise CheckpointError(
                f"config has layer type {name!r}, which is not supported here; supported: full_attention, and "
                "sliding_attention with use_sliding_window true and a sliding_window"
            )
    return tuple(sizes[name] or 0 for name in types)
