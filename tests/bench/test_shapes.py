"""Shapes by name: dimensions that follow from a model's config, and names that are refused."""

from __future__ import annotations

import pytest

from fewbit.bench.shapes import MODELS, Shape, parse_shapes
from fewbit.spec.refusal import FewbitError

CONFIGS = {  # hidden, heads, kv heads, head dim, intermediate, vocabulary
    "llama-3.1-8b": (4096, 32, 8, 128, 14336, 128256),
    "qwen3-4b": (2560, 32, 8, 128, 9728, 151936),
    "qwen3-30b-a3b": (2048, 32, 4, 128, 768, 151936),
    "gpt-oss-20b": (2880, 64, 8, 64, 2880, 201088),
    "smollm2-135m": (576, 9, 3, 64, 1536, 49152),
}


@pytest.mark.parametrize("model", CONFIGS)
def test_the_layers_of_a_model_follow_from_its_config(model: str) -> None:
    hidden, heads, kv_heads, head_dim, inner, vocab = CONFIGS[model]
    layers = MODELS[model]
    expert = "expert_" if "expert_down" in layers else ""
    assert layers == {
        "qkv": ((heads + 2 * kv_heads) * head_dim, hidden),
        "o": (hidden, heads * head_dim),
        f"{expert}gate_up": (2 * inner, hidden),
        f"{expert}down": (hidden, inner),
        "head": (vocab, hidden),
    }


def test_deepseek_follows_from_its_latent_sizes() -> None:
    layers, heads, rank = MODELS["deepseek-v2-lite"], 16, 512
    assert layers["q"] == (heads * (128 + 64), 2048)
    assert layers["kv_a"] == (rank + 64, 2048)
    assert layers["kv_b"] == (heads * (128 + 128), rank)
    assert layers["o"] == (2048, heads * 128)
    assert layers["expert_gate_up"] == (2 * 1408, 2048) and layers["shared_down"] == (2048, 2 * 1408)
    assert layers["dense_gate_up"] == (2 * 10944, 2048)


def test_a_model_leaves_out_its_head_a_layer_and_numbers_are_taken_as_they_are() -> None:
    assert [shape.layer for shape in parse_shapes("smollm2-135m")] == ["qkv", "o", "gate_up", "down"]
    found = parse_shapes("Llama-3.1-8B/head, 100x64,100x64")
    assert found == (Shape("llama-3.1-8b", "head", 128256, 4096), Shape("", "", 100, 64))
    assert list(map(str, found)) == ["128256x4096 llama-3.1-8b/head", "100x64"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("llama-9", "'llama-9' is no model known here; type one of llama-3.1-8b, qwen3-4b"),
        ("qwen3-4b/up", "qwen3-4b has no such layer; its layers are qkv, o, gate_up, down, head"),
        ("0x32", "0x32 has no elements"),
        ("", "'' is no model known here"),
    ],
)
def test_other_names_are_refused(text: str, said: str) -> None:
    with pytest.raises(FewbitError) as refused:
        parse_shapes(text)
    assert said in str(refused.value)
