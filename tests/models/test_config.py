"""Config keys of the llama family: what each member makes of them, and what is refused, by name and value."""

from __future__ import annotations

from typing import Any

import pytest
import transformers

from fewbit.models import family
from fewbit.models.llama_config import LlamaConfig, parse
from fewbit.spec.refusal import CheckpointError

BASE: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 4, "num_attention_heads": 4, "vocab_size": 100,
    "max_position_embeddings": 128,
}  # fmt: skip


def read(model_type: str = "llama", tensors: tuple[str, ...] = (), **changes: Any) -> LlamaConfig:
    return parse(model_type, BASE | changes, tensors)


def test_defaults_of_each_member() -> None:
    llama = read()
    assert (llama.kv_heads, llama.head_dim, llama.rope.theta, llama.tied) == (4, 16, 10000.0, False)
    assert not (any(llama.qkv_bias) or llama.o_bias or llama.mlp_bias or llama.qk_norm)
    assert read("mistral").windows == (4096,) * 4  # where the config is silent, as in transformers
    assert read("mistral", sliding_window=None).windows == (0,) * 4
    assert all(read("qwen2").qkv_bias) and not read("qwen2").o_bias
    assert read("qwen3").head_dim == 128 and read("qwen3").qk_norm


@pytest.mark.parametrize("name", ["Llama", "Mistral", "Qwen2", "Qwen3"])
def test_every_key_that_transformers_writes_is_known(name: str) -> None:
    config = getattr(transformers, f"{name}Config")(num_hidden_layers=3)
    parse(config.model_type, config.to_dict(), ())


def test_published_configs_are_read() -> None:
    """Keys as they stand in config.json of Llama 3.1, SmolLM2 and Qwen2.5."""
    llama31 = {
        "rope_theta": 500000.0, "pretraining_tp": 1, "mlp_bias": False, "attention_bias": False, "torch_dtype": "bfloat16",
        "rope_scaling": {
            "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 8192,
            "rope_type": "llama3",
        },
    }  # fmt: skip
    assert read(**llama31).rope.type == "llama3"
    smollm2 = {"is_llama_config": True, "rope_interleaved": False, "rope_theta": 100000, "rope_scaling": None}
    extra = {"transformers.js_config": {"kv_cache_dtype": {}}, "tie_word_embeddings": True}
    assert read(**smollm2, **extra).rope.theta == 100000.0
    qwen = {
        "use_sliding_window": False,
        "sliding_window": 131072,
        "max_window_layers": 28,
        "use_mrope": False,
    }
    assert read("qwen2", **qwen).windows == (0,) * 4


def test_windows_by_layer() -> None:
    on = {"use_sliding_window": True, "sliding_window": 8}
    assert read("qwen2", **on, max_window_layers=3).windows == (0, 0, 0, 8)
    assert read("qwen2", **on, max_window_layers=9).windows == (0, 0, 0, 0)
    mixed = ["sliding_attention", "full_attention"] * 2
    assert read("qwen3", **on, layer_types=mixed).windows == (8, 0, 8, 0)


def test_rope_parameters_hold_theta() -> None:
    rope = read(
        rope_parameters={"rope_type": "default", "rope_theta": 7e4, "partial_rotary_factor": 0.5}
    ).rope
    assert (rope.theta, rope.dim) == (7e4, 8)


def test_tensors_decide_where_the_config_is_silent() -> None:
    assert read(tensors=("model.layers.0.self_attn.q_proj.bias",)).qkv_bias == (True, False, False)
    assert not read(tensors=("model.layers.0.self_attn.q_proj.bias",)).o_bias
    assert not any(read(tensors=("model.layers.0.self_attn.q_proj.bias",), attention_bias=False).qkv_bias)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"hidden_act": "gelu"}, "hidden_act = 'gelu', which is not supported; supported: 'silu', 'swish'"),
        ({"hidden_size": "64"}, "hidden_size = '64'; expected int"),
        ({"num_hidden_layers": True}, "num_hidden_layers = True; expected int"),
        ({"num_hidden_layers": 0}, "num_hidden_layers = 0; expected at least 1"),
        ({"hidden_size": None}, "hidden_size = None; expected int"),
        ({"num_key_value_heads": 3}, "num_attention_heads = 4, no multiple of num_key_value_heads = 3"),
        ({"rope_interleaved": True}, "rope_interleaved = True, which is not supported"),
        (
            {"attn_logit_softcapping": 50.0},
            "attn_logit_softcapping = 50.0, which this architecture does not know",
        ),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantization_config"),
        ({"rope_scaling": {"rope_type": "longrope"}}, "rope_type 'longrope'"),
        ({"sliding_window": 8}, "sliding_window = 8, which this architecture does not use"),
        ({"partial_rotary_factor": 0.1}, "rotates 1 of 16 elements"),
        ({"layer_types": ["full_attention"]}, "1 layer_types for 4 layers"),
        ({"layer_types": ["linear_attention"] * 4}, "layer type 'linear_attention', which is not supported"),
    ],
)
def test_refusals_name_key_and_value(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(CheckpointError) as error:
        read(**changes)
    assert text in str(error.value)


def test_a_missing_key_is_named() -> None:
    config = {key: value for key, value in BASE.items() if key != "vocab_size"}
    with pytest.raises(CheckpointError, match="config has no vocab_size"):
        parse("llama", config, ())


def test_unknown_architectures_name_the_nearest() -> None:
    with pytest.raises(
        CheckpointError, match=r"'qwen3_moe' is not supported; supported: llama, .*; the nearest is qwen3"
    ):
        family("qwen3_moe")
    with pytest.raises(
        CheckpointError, match=r"'zzz' is not supported; supported: llama, mistral, qwen2, qwen3$"
    ):
        family("zzz")
