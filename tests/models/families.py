"""Tiny random transformers models of every member of the llama family, and what they compute."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
import transformers

BASE: dict[str, Any] = {
    "vocab_size": 160, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 256, "rms_norm_eps": 1e-5,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}  # fmt: skip
YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 32}
MSCALE = YARN | {"mscale": 1.2, "mscale_all_dim": 0.7, "beta_fast": 16, "beta_slow": 2, "truncate": False}

MEMBERS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("Llama", {}),
    "llama_tied": ("Llama", {"tie_word_embeddings": True}),
    "llama_bias": ("Llama", {"attention_bias": True, "mlp_bias": True}),
    "llama_mha_head_dim": ("Llama", {"num_key_value_heads": 4, "head_dim": 32}),
    "llama3": ("Llama", {"rope_parameters": LLAMA3}),
    "llama_linear": ("Llama", {"rope_parameters": {"rope_type": "linear", "rope_theta": 1e4, "factor": 2.5}}),
    "llama_yarn": ("Llama", {"rope_parameters": YARN}),
    "llama_yarn_mscale": ("Llama", {"rope_parameters": MSCALE}),
    "mistral": ("Mistral", {"sliding_window": None, "head_dim": 16}),
    "mistral_window": ("Mistral", {"sliding_window": 7}),
    "qwen2": ("Qwen2", {"tie_word_embeddings": True}),
    "qwen2_window": ("Qwen2", {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1}),
    "qwen3": ("Qwen3", {"head_dim": 32}),
    "qwen3_bias_window": (
        "Qwen3",
        {
            "head_dim": 32, "attention_bias": True, "use_sliding_window": True, "sliding_window": 6,
            "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        },
    ),
}  # fmt: skip


def tiny_model(member: str, attention: str = "sdpa") -> Any:
    name, changes = MEMBERS[member]
    torch.manual_seed(sum(map(ord, member)))
    config = getattr(transformers, f"{name}Config")(**BASE | changes, attn_implementation=attention)
    model = getattr(transformers, f"{name}ForCausalLM")(config).float().eval()
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():  # weights of a size at which mistakes show
            if parameter.ndim == 1:
                parameter.copy_(torch.randn_like(parameter) * 0.2 + ("norm" in parameter_name))
            else:
                parameter.copy_(torch.randn_like(parameter) * parameter.shape[1] ** -0.5)
    return model


def sequences(vocab: int) -> list[list[int]]:
    rng = np.random.default_rng(5)
    return [rng.integers(0, vocab, length).tolist() for length in (5, 37, 1, 18)]


def expected_logits(model: Any, tokens: list[int]) -> np.ndarray:
    with torch.no_grad():
        return model(torch.tensor([tokens])).logits[0].float().numpy()


def assert_close(ours: np.ndarray, theirs: np.ndarray, tolerance: float = 1e-4) -> None:
    """Relative to the spread of the logits."""
    assert ours.shape == theirs.shape
    error = np.abs(ours - theirs).max() / np.abs(theirs).max()
    assert error < tolerance, f"relative error {error:.2e}"
