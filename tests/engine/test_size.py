"""Limits follow from memory when they are not asked for, and contradictions are refused with numbers."""

from __future__ import annotations

import pytest

from fewbit.config import EngineConfig
from fewbit.engine.size import SizeError, size_cache

PAGE = 1000
AMPLE = 10**9


def test_all_that_is_wanted_fits() -> None:
    size = size_cache(EngineConfig(max_sequences=4), 2048, PAGE, 32, AMPLE)
    assert (size.context_tokens, size.pages) == (2048, 4 * 64 + 1)


def test_memory_bounds_the_cache_then_the_context() -> None:
    size = size_cache(EngineConfig(max_sequences=4), 2048, PAGE, 32, 200 * PAGE)
    assert (size.context_tokens, size.pages) == (
        2048,
        100,
    )  # 4 sequences share what one and a half could fill
    size = size_cache(EngineConfig(max_sequences=4), 2048, PAGE, 32, 100 * PAGE)
    assert (size.context_tokens, size.pages) == (49 * 32, 50)
    assert "half of" in size.why


def test_asked_for() -> None:
    size = size_cache(EngineConfig(context=100, kv_memory="50000B", max_sequences=2), 2048, PAGE, 32, 0)
    assert (size.context_tokens, size.pages) == (100, 9)
    size = size_cache(EngineConfig(kv_memory="50000B"), 2048, PAGE, 32, 0)
    assert (size.context_tokens, size.pages) == (49 * 32, 50)


@pytest.mark.parametrize(
    ("config", "left", "text"),
    [
        (
            EngineConfig(context=4096),
            AMPLE,
            "must lie between 2 and the model's own limit; type --context 2048",
        ),
        (EngineConfig(context=1), AMPLE, "must lie between 2"),
        (EngineConfig(context=2048), 10 * PAGE, "one context of 2048 tokens takes"),
        (EngineConfig(), -5, "only 0 B may be used"),
        (EngineConfig(kv_memory="1KB"), AMPLE, "more --kv-memory"),
        (EngineConfig(kv_memory="lots"), AMPLE, "'lots' is no size"),
        (EngineConfig(max_sequences=0), AMPLE, "at least 1"),
        (
            EngineConfig(max_sequences=16, batch_tokens=8),
            AMPLE,
            "--batch-tokens 8 is below --max-sequences 16",
        ),
    ],
)
def test_contradictions(config: EngineConfig, left: int, text: str) -> None:
    with pytest.raises(SizeError, match=text.replace("(", r"\(")):
        size_cache(config, 2048, PAGE, 32, left)
