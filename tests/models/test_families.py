"""Every member of the llama family against transformers in FP32: prefill, unequal batches, chunks and decode steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from fewbit.spec.dtype import BF16, F32
from tests.models.families import MEMBERS, assert_close, expected_logits, sequences, tiny_model
from tests.models.tiny import Driver, checkpoint_of, runner_of

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
