"""How tokens of one request are chosen and when it ends. A message struct, checked when it is made."""

from __future__ import annotations

import math

import msgspec

from fewbit.spec.refusal import FewbitError

TOP_LOGPROBS_MAX = 20
SEED_MAX = (1 << 64) - 1
TOP_K_MAX = (1 << 31) - 1


class RequestError(FewbitError):
    """A request that can't be served as asked; the text names the value, its bounds and what to do."""


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True):
    """Defaults choose the likeliest token until the context is full.

    temperature      0 = greedy
    top_k            0 = off
    seed             any 64-bit number; token number i of a request depends on (seed, i) and its text alone
    min_tokens       stop tokens do not end the request before this many tokens
    top_logprobs     -1: no logprobs; 0..20: the chosen token's logprob and so many of the likeliest
    prompt_logprobs  the same for every token of the prompt but the first, which has none
    """

    max_tokens: int
    min_tokens: int = 0
    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    stop_token_ids: tuple[int, ...] = ()
    top_logprobs: int = -1
    prompt_logprobs: int = -1

    def __post_init__(self) -> None:
        _within("max_tokens", self.max_tokens, 0, 1 << 31)
        _within("min_tokens", self.min_tokens, 0, self.max_tokens)
        _within("temperature", self.temperature, 0, 100)
        _within("top_k", self.top_k, 0, TOP_K_MAX)
        _within("top_p", self.top_p, 0, 1)
        _within("min_p", self.min_p, 0, 1)
        _within("seed", self.seed, 0, SEED_MAX)
        _within("top_logprobs", self.top_logprobs, -1, TOP_LOGPROBS_MAX)
        _within("prompt_logprobs", self.prompt_logprobs, -1, TOP_LOGPROBS_MAX)
        if self.top_p == 0:
            raise RequestError("top_p must be above 0, got 0; use temperature 0 for the likeliest token")
        if self.max_tokens == 0 and self.prompt_logprobs < 0:
            raise RequestError("max_tokens 0 generates nothing; it only makes sense with prompt logprobs")


def _within(name: str, value: float, low: float, high: float) -> None:
    if isinstance(value, bool) or not low <= value <= high or math.isnan(value):  # NaN compares false, too
        raise RequestError(f"{name} must lie between {low} and {high}, got {value}")
