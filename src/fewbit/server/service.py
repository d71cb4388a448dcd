"""What the endpoints share: the model's name, its tokenizer, the engine, and whether the server is draining."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from fewbit.server.engine_client import EngineClient, Job
from fewbit.server.errors import ApiError, bad
from fewbit.server.protocol import Order
from fewbit.tokenizer.tokenizer import Tokenizer

LONG_TEXT = 20_000  # characters; encoding more takes over 5 ms, so it leaves the event loop


@dataclass(slots=True)
class Service:
    model: str
    tokenizer: Tokenizer
    engine: EngineClient
    write_timeout_s: float = 30.0
    ping_s: float = 15.0
    created: int = field(default_factory=lambda: int(time.time()))
    draining: bool = False
    in_flight: int = 0

    def check_open(self) -> None:
        if self.draining:
            raise ApiError(
                503, "the server is shutting down", code="shutting_down", retry_after="5", connection="close"
            )

    def check_model(self, name: str | None) -> None:
        if name is not None and name != self.model:
            raise ApiError(
                404,
                f"this server has the model {self.model!r}, not {name[:100]!r}",
                param="model",
                code="model_not_found",
            )

    async def encode(self, order: Order) -> list[list[int]]:
        """Token ids of each prompt, each checked against vocabulary and context."""
        limits = self.engine.limits
        if order.conversation is not None:
            prompts = [
                await asyncio.to_thread(self.tokenizer.encode_chat, order.conversation, order.template_kwargs)
            ]
        else:
            prompts = [await self._ids(prompt) for prompt in order.prompts]
        param = "prompt" if order.conversation is None else "messages"
        room = limits.max_context_tokens - (order.max_tokens != 0)
        for ids in prompts:
            if not ids:
                raise bad(param, "the prompt is empty; it needs at least one token")
            if len(ids) > room:
                raise bad(
                    param,
                    f"the prompt has {len(ids)} tokens, and the context of {limits.max_context_tokens} tokens leaves room "
                    f"for {room}; shorten it, or start the server with a larger --context",
                    "context_length_exceeded",
                )
            if max(ids) >= limits.vocab:
                raise bad(param, f"token id {max(ids)} is outside the vocabulary of {limits.vocab} tokens")
        return prompts

    def submit(self, order: Order, prompts: list[list[int]]) -> Job:
        """Choice number i belongs to prompt i // n, as OpenAI numbers them."""
        limits = self.engine.limits
        room = limits.max_sequences + limits.max_waiting
        if len(prompts) * order.n > room:
            raise bad(
                "n",
                f"{len(prompts)} prompts with n {order.n} are more than the {room} requests this server holds",
            )
        self.check_open()
        return self.engine.submit(
            [
                (
                    ids,
                    order.sampling(
                        index * order.n + choice, limits.max_context_tokens - len(ids), self.tokenizer.eos_ids
                    ),
                )
                for index, ids in enumerate(prompts)
                for choice in range(order.n)
            ]
        )

    async def _ids(self, prompt: str | list[int]) -> list[int]:
        if not isinstance(prompt, str):
            return prompt
        if len(prompt) > LONG_TEXT:
            return await asyncio.to_thread(self.tokenizer.encode, prompt)
        return self.tokenizer.encode(prompt)
