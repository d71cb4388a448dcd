"""Every member of the llama family against transformers in FP32: prefill, unequal batches, chunks and decode steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from fewbit.spec.dtype import BF16, F32
from tests.models.tiny import Driver, checkpoint_of, runner_of

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


CACHED: list[tuple[np.ndarray, np.ndarray]] = []
"""(keys, values) of a sequence by layer, as our cache holds them: [kv_heads, tokens, head_dim] f32."""


def with_our_cache(module: Any, query: Any, key: Any, value: Any, mask: Any, **rest: Any) -> Any:
    """transformers' own attention over what our bf16 cache holds, which must be its keys and values, rounded.

    Rounded by transformers itself, some elements would fall on the other side of a tie, and 1e-4 could not be asked for.
    """
    ours = [torch.from_numpy(part[None]) for part in CACHED[module.layer_idx]]
    for held, exact in zip(ours, (key, value), strict=True):
        torch.testing.assert_close(held, exact, rtol=2**-8, atol=1e-5)
    return ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, *ours, mask, **rest)


ALL_ATTENTION_FUNCTIONS.register("with_our_cache", with_our_cache)
masks = transformers.masking_utils.ALL_MASK_ATTENTION_FUNCTIONS
masks.register("with_our_cache", masks["sdpa"])


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


@pytest.mark.parametrize("member", MEMBERS)
@pytest.mark.parametrize("kind", ["reference_f32_cache", "reference", "cpu"])
def test_logits_equal_transformers(member: str, kind: str, backends: Any) -> None:
    exact = kind == "reference_f32_cache"
    model = tiny_model(member, "sdpa" if exact else "with_our_cache")
    driver = Driver(runner_of(checkpoint_of(model), backends(kind.split("_")[0]), F32 if exact else BF16))
    texts = sequences(model.config.vocab_size)

    # a batch of unequal lengths, of which 1 is cut into chunks; then decode steps beside the last chunk
    first = driver.logits({0: texts[0], 1: texts[1][:20], 2: texts[2]})
    second = driver.logits({1: texts[1][20:36], 3: texts[3][:10]})
    ours = {0: first[0], 2: first[2], 1: np.concatenate([first[1], second[0]]), 3: second[1]}
    for step in range(10, len(texts[3])):
        chunks = {3: [texts[3][step]]} | ({1: [texts[1][36]]} if step == 12 else {})
        for sequence, logits in zip(chunks, driver.logits(chunks), strict=True):
            ours[sequence] = np.concatenate([ours[sequence], logits])
    for sequence, logits in ours.items():
        CACHED[:] = driver.cached(sequence)
        assert_close(logits, expected_logits(model, texts[sequence]))


def test_window_matters() -> None:
    """The windowed models differ from the same weights without a window, so the cases above can fail."""
    windowed, text = tiny_model("mistral_window"), sequences(160)[1]
    before = expected_logits(windowed, text)
    config = windowed.config
    config.sliding_window = None
    plain = transformers.MistralForCausalLM(config).eval()
    plain.load_state_dict(windowed.state_dict())
    assert np.abs(before - expected_logits(plain, text))[-1].max() > 0.05
