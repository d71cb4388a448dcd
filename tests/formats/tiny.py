"""Tiny random models for tests: one set of canonical weights that each format's fixture writes in its own way."""

from __future__ import annotations

from typing import Any

import numpy as np

from fewbit.schemes.arrays import Array

VOCAB = 288  # 256 bytes, 8 control tokens, 24 merges
CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(5)))
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny_config(model_type: str = "llama", **changes: Any) -> dict[str, Any]:
    """Hugging Face config of a model of about 0.3 M parameters. `changes` replace or add keys."""
    config: dict[str, Any] = {
        "model_type": model_type, "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
        "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16, "hidden_act": "silu", "rms_norm_eps": 1e-5,
        "max_position_embeddings": 512, "rope_theta": 10000.0, "rope_scaling": None, "tie_word_embeddings": False,
    }  # fmt: skip
    if model_type in ("llama", "qwen3"):
        config["attention_bias"] = False
    return {**config, **changes}


def tiny_weights(config: dict[str, Any], seed: int = 0) -> dict[str, Array]:
    """Canonical name to f32 array, of a size that keeps activations near one."""
    rng = np.random.default_rng(seed)
    hidden, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q_rows, kv_rows = config["num_attention_heads"] * head, config["num_key_value_heads"] * head

    def matrix(n: int, k: int) -> Array:
        values: Array = rng.standard_normal((n, k)) / np.sqrt(k)
        return values.astype(np.float32)

    def vector(n: int, around: float = 1.0) -> Array:
        values: Array = around + 0.1 * rng.standard_normal(n)
        return values.astype(np.float32)

    weights = {
        "model.embed_tokens.weight": matrix(config["vocab_size"], hidden) * np.sqrt(hidden, dtype=np.float32)
    }
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}."
        rows = {
            "q_proj": (q_rows, hidden),
            "k_proj": (kv_rows, hidden),
            "v_proj": (kv_rows, hidden),
            "o_proj": (hidden, q_rows),
        }
        for name, shape in rows.items():
            weights[f"{at}self_attn.{name}.weight"] = matrix(*shape)
            if config.get("attention_bias") or (config["model_type"] == "qwen2" and name != "o_proj"):
                weights[f"{at}self_attn.{name}.bias"] = vector(shape[0], 0.0)
        for name, shape in {
            "gate_proj": (inner, hidden),
            "up_proj": (inner, hidden),
            "down_proj": (hidden, inner),
        }.items():
            weights[f"{at}mlp.{name}.weight"] = matrix(*shape)
            if config.get("mlp_bias"):
                weights[f"{at}mlp.{name}.bias"] = vector(shape[0], 0.0)
        weights[f"{at}input_layernorm.weight"] = vector(hidden)
        weights[f"{at}post_attention_layernorm.weight"] = vector(hidden)
        if config["model_type"] == "qwen3":
            weights[f"{at}self_attn.q_norm.weight"] = vector(head)
            weights[f"{at}self_attn.k_norm.weight"] = vector(head)
    weights["model.norm.weight"] = vector(hidden)
    if not config["tie_word_embeddings"]:
        weights["lm_head.weight"] = matrix(config["vocab_size"], hidden)
    return weights


def tiny_vocabulary() -> tuple[list[str], list[int], list[str]]:
    """Tokens, GGUF token types and merges of a byte-level BPE vocabulary of VOCAB tokens. Ids 0 .. 7 are control tokens."""
    alphabet = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in alphabet]
    byte_tokens = [chr(b) for b in alphabet] + [chr(256 + i) for i in range(len(others))]
    pairs = ["t h", "th e", "Ġ t", "Ġ a", "i n", "e r", "Ġ s", "o n", "r e", "a t", "e n", "o r", "Ġ w", "e s", "i s",
             "i t", "Ġ c", "a n", "n d", "o u", "Ġ b", "Ġ o", "e d", "l l"]  # fmt: skip
    tokens = [*CONTROL_TOKENS, *byte_tokens, *(p.replace(" ", "") for p in pairs)]
    types = [3] * len(CONTROL_TOKENS) + [1] * (len(tokens) - len(CONTROL_TOKENS))
    return tokens, types, pairs
