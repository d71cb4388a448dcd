"""What the endpoints share: the model's name, its tokenizer, the engine, and whether the server is draining."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field

from fewbit.server.engine_client import EngineClient, Job
from fewbit.server.errors import ApiError, bad
from fewbit.server.protocol import Order
from fewbit.tokenizer.tokenizer import Tokenizer, TooLongError

LONG_TEXT = 4_000  # characters; encoding more may take over 5 ms, so it leaves the event loop


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
        param = "prompt" if order.conversation is None else "messages"
        room = limits.max_context_tokens - (order.max_tokens != 0)
        try:
            if order.conversation is None:
                prompts = await self._ids(order.prompts, room)
            else:
                encode = self.tokenizer.encode_chat
                prompts = [await asyncio.to_thread(encode, order.conversation, order.template_kwargs, room)]
        except TooLongError as error:
            raise self._too_long(param, f"at least {error.tokens}", room) from None
        for ids in prompts:
            if not ids:
                raise bad(param, "the prompt is empty; it needs at least one token")
            if len(ids) > room:
                raise self._too_long(param, str(len(ids)), room)
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

    async def _ids(self, prompts: list[str | list[int]], room: int) -> list[list[int]]:
        def encode() -> list[list[int]]:
            return [self.tokenizer.encode(item, room) if isinstance(item, str) else item for item in prompts]

        long = sum(len(item) for item in prompts if isinstance(item, str)) > LONG_TEXT
        return await asyncio.to_thread(encode) if long else encode()

    def _too_long(self, param: str, tokens: str, room: int) -> ApiError:
        message = (
            f"the prompt has {tokens} tokens, and the context of {self.engine.limits.max_context_tokens} tokens leaves room "
            f"for {room}; shorten it, or start the server with a larger --context"
        )
        return bad(param, message, "context_length_exceeded")
