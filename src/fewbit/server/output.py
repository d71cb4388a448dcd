"""One choice's answer as it grows: tokens become text, stop strings end it, logprobs are laid out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from fewbit.engine.messages import PromptScores, Token, TopLogprobs
from fewbit.server.protocol import Order
from fewbit.tokenizer.stop import StopMatcher
from fewbit.tokenizer.token_bytes import TokenBytes
from fewbit.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Scored:
    """A token with its logprob and the likeliest tokens in its place; None for the first token of a prompt."""

    token_id: int
    logprob: float | None
    top: TopLogprobs | None


@dataclass(slots=True)
class Delta:
    """What one step adds to a choice."""

    text: str = ""
    scored: list[Scored] = field(default_factory=list)
    finish_reason: str | None = None

    @property
    def empty(self) -> bool:
        return not self.text and not self.scored and self.finish_reason is None


class Choice:
    def __init__(self, tokenizer: Tokenizer, order: Order, prompt: list[int]) -> None:
        self._detokenizer = tokenizer.detokenizer()
        self._matcher = StopMatcher(order.stop)
        self._min_tokens = order.min_tokens
        self._prompt = prompt
        self._wants_logprobs = order.logprobs >= 0
        self.output_tokens = 0
        self.finish_reason: str | None = None

    def begin(self, echo_text: str | None) -> Delta:
        """The prompt's text, if it is to be repeated."""
        first = (
            [Scored(self._prompt[0], None, None)] if echo_text is not None and self._wants_logprobs else []
        )
        return Delta(echo_text or "", first)

    def scores(self, event: PromptScores) -> Delta:
        tokens = self._prompt[event.start : event.start + len(event.logprobs)]
        return Delta("", [Scored(*entry) for entry in zip(tokens, event.logprobs, event.tops, strict=True)])

    def token(self, event: Token) -> Delta:
        """`finish_reason` is set when a stop string is complete; the engine does not know of those."""
        self.output_tokens += 1
        text = self._detokenizer.feed(event.token_id)
        if self.output_tokens > self._min_tokens:
            text = self._matcher.feed(text)
        scored = [Scored(event.token_id, event.logprob, event.top)] if self._wants_logprobs else []
        if self._matcher.stopped:
            self.finish_reason = "stop"
        return Delta(text, scored, self.finish_reason)

    def end(self, reason: str) -> Delta:
        self.finish_reason = reason
        return Delta(self._matcher.finish(), [], reason)


def chat_logprobs(scored: list[Scored], token_bytes: TokenBytes) -> dict[str, Any]:
    """OpenAI's form for chat: bytes beside the text, since a token may hold a part of a character."""

    def entry(token_id: int, logprob: float | None) -> dict[str, Any]:
        raw = token_bytes[token_id]
        return {"token": raw.decode(errors="replace"), "logprob": logprob, "bytes": list(raw)}

    return {
        "content": [
            entry(item.token_id, item.logprob) | {"top_logprobs": [entry(*pair) for pair in item.top or ()]}
            for item in scored
        ]
    }


def completion_logprobs(scored: list[Scored], token_bytes: TokenBytes, offset: int) -> dict[str, Any]:
    """OpenAI's form for completions. The chosen token is in its top_logprobs, with the same number to the bit."""
    names = [token_name(token_bytes[item.token_id]) for item in scored]
    offsets = []
    for item in scored:
        offsets.append(offset)
        offset += len(token_bytes[item.token_id].decode(errors="ignore"))
    return {
        "tokens": names,
        "token_logprobs": [item.logprob for item in scored],
        "top_logprobs": [_top(item, name, token_bytes) for item, name in zip(scored, names, strict=True)],
        "text_offset": offsets,
    }


def _top(item: Scored, name: str, token_bytes: TokenBytes) -> dict[str, float] | None:
    if item.logprob is None or item.top is None:
        return None
    top: dict[str, float] = {}
    for token_id, logprob in item.top:
        top.setdefault(
            token_name(token_bytes[token_id]), logprob
        )  # likeliest first, should two have one spelling
    top[name] = item.logprob
    return top


def token_name(raw: bytes) -> str:
    r"""A token's text, or `bytes:\xe2\x80` when it is a part of a character, as OpenAI writes it."""
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in raw)
