"""What a request asks for, read from its JSON body: chat and completions become the same `Order`."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fewbit.engine.sampling_params import TOP_LOGPROBS_MAX, SamplingParams
from fewbit.engine.uniform import choice_seed
from fewbit.server.errors import bad
from fewbit.server.parameters import Check, boolean, common, integer, options, read, show, text
from fewbit.tokenizer.chat_template import KWARGS

PROMPTS_MAX = 256
MESSAGES_MAX = 4096
COMPLETION_TOKENS = 16  # OpenAI's default of /v1/completions
ROLES = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
SEED_MASK = (1 << 64) - 1

Conversation = list[dict[str, str]]


@dataclass(frozen=True, slots=True)
class Order:
    """`prompts`: texts or token ids; of a chat, one conversation. Numbers are checked, their defaults filled in.

    `max_tokens` None: until the context is full. `logprobs` -1: none, else how many alternatives.
    """

    prompts: list[str | list[int]]
    conversation: Conversation | None
    template_kwargs: dict[str, Any]
    model: str | None
    max_tokens: int | None
    min_tokens: int
    ignore_eos: bool
    n: int
    seed: int
    stop: list[str]
    stream: bool
    include_usage: bool
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    logprobs: int
    echo: bool

    def sampling(self, choice: int, room_tokens: int, eos_ids: tuple[int, ...]) -> SamplingParams:
        """Of one choice. `room_tokens`: what the context leaves for the answer."""
        wanted = room_tokens if self.max_tokens is None else min(self.max_tokens, room_tokens)
        return SamplingParams(
            max_tokens=wanted,
            min_tokens=min(self.min_tokens, wanted),
            temperature=self.temperature,
            top_k=max(self.top_k, 0),
            top_p=self.top_p,
            min_p=self.min_p,
            seed=choice_seed(self.seed, choice),
            stop_token_ids=() if self.ignore_eos else eos_ids,
            top_logprobs=self.logprobs,
            prompt_logprobs=self.logprobs if self.echo else -1,
        )


def read_chat(body: Mapping[str, Any], max_context: int) -> Order:
    checks = common(max_context) | {
        "messages": messages,
        "max_completion_tokens": integer(1, max_context),
        "logprobs": boolean,
        "top_logprobs": integer(0, TOP_LOGPROBS_MAX),
        "chat_template_kwargs": options({name: boolean for name in KWARGS}),
    }
    values = read(body, checks)
    if "messages" not in values:
        raise bad("messages", "messages is required", "missing_parameter")
    if "top_logprobs" in values and not values.get("logprobs"):
        raise bad("top_logprobs", "top_logprobs needs logprobs: true")
    if "max_completion_tokens" in values:
        if values.get("max_tokens", values["max_completion_tokens"]) != values["max_completion_tokens"]:
            raise bad("max_tokens", "max_tokens and max_completion_tokens differ; give one of them")
        values["max_tokens"] = values["max_completion_tokens"]
    logprobs = values.get("top_logprobs", 0) if values.get("logprobs") else -1
    return _order(values, [], values["messages"], values.get("max_tokens"), logprobs, echo=False)


def read_completion(body: Mapping[str, Any], max_context: int) -> Order:
    checks: dict[str, Check] = common(max_context) | {
        "prompt": prompts,
        "max_tokens": integer(0, max_context),
        "echo": boolean,
        "logprobs": integer(0, TOP_LOGPROBS_MAX),
    }
    values = read(body, checks)
    if "prompt" not in values:
        raise bad("prompt", "prompt is required", "missing_parameter")
    echo, logprobs = values.get("echo", False), values.get("logprobs", -1)
    max_tokens = values.get("max_tokens", COMPLETION_TOKENS)
    if max_tokens == 0 and not (echo and logprobs >= 0):
        raise bad(
            "max_tokens",
            "max_tokens 0 generates nothing; it needs echo: true and logprobs, to score the prompt",
        )
    return _order(values, values["prompt"], None, max_tokens, logprobs, echo)


def _order(
    values: dict[str, Any],
    prompts: list[str | list[int]],
    conversation: Conversation | None,
    max_tokens: int | None,
    logprobs: int,
    echo: bool,
) -> Order:
    if max_tokens is not None and values.get("min_tokens", 0) > max_tokens:
        raise bad("min_tokens", f"min_tokens {values['min_tokens']} is above max_tokens {max_tokens}")
    seed = values.get("seed")
    return Order(
        prompts=prompts,
        conversation=conversation,
        template_kwargs=values.get("chat_template_kwargs", {}),
        model=values.get("model"),
        max_tokens=max_tokens,
        min_tokens=values.get("min_tokens", 0),
        ignore_eos=values.get("ignore_eos", False),
        n=values.get("n", 1),
        seed=secrets.randbits(64) if seed is None else seed & SEED_MASK,
        stop=values.get("stop", []),
        stream=values.get("stream", False),
        include_usage=values.get("stream_options", {}).get("include_usage", False),
        temperature=values.get("temperature", 1.0),
        top_k=values.get("top_k", 0),
        top_p=values.get("top_p", 1.0),
        min_p=values.get("min_p", 0.0),
        logprobs=logprobs,
        echo=echo,
    )


def messages(name: str, value: Any) -> Conversation:
    if not isinstance(value, list) or not 0 < len(value) <= MESSAGES_MAX:
        size = f"{len(value)} messages" if isinstance(value, list) else show(value)
        raise bad(name, f"{name} must be a list of 1 to {MESSAGES_MAX} messages, got {size}")
    return [_message(f"{name}[{index}]", item) for index, item in enumerate(value)]


def _message(name: str, value: Any) -> dict[str, str]:
    if not isinstance(value, dict):
        raise bad(name, f"{name} must be an object with role and content, got {show(value)}")
    for key, item in value.items():
        if key not in ("role", "content") and item is not None:
            raise bad(
                f"{name}.{key[:64]}",
                f"{name} knows only role and content, got {show(key)}",
                "unknown_parameter",
            )
    role = value.get("role")
    if not isinstance(role, str) or role not in ROLES:
        raise bad(f"{name}.role", f"{name}.role must be one of {', '.join(ROLES)}, got {show(role)}")
    content = value.get("content")
    if content is None and role == "assistant":
        content = ""
    if isinstance(content, list):
        content = "\n".join(_part(f"{name}.content[{index}]", part) for index, part in enumerate(content))
    return {"role": ROLES[role], "content": text(f"{name}.content", content)}


def _part(name: str, value: Any) -> str:
    if not isinstance(value, dict) or value.get("type") != "text" or set(value) != {"type", "text"}:
        kind = value.get("type") if isinstance(value, dict) else value
        raise bad(
            name,
            f'{name} must be {{"type": "text", "text": ...}}, got {show(kind)}; this model reads text only',
        )
    return text(f"{name}.text", value["text"])


def prompts(name: str, value: Any) -> list[str | list[int]]:
    """A string, a list of strings, token ids, or a list of lists of token ids."""
    if isinstance(value, str) or _is_ids(value):
        return [value]
    several = isinstance(value, list) and 0 < len(value) <= PROMPTS_MAX
    if several and (all(isinstance(item, str) for item in value) or all(_is_ids(item) for item in value)):
        return list(value)
    raise bad(name, f"{name} must be a string, token ids, or 1 to {PROMPTS_MAX} of either, got {show(value)}")


def _is_ids(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and all(type(item) is int and 0 <= item < 1 << 31 for item in value)
    )
