"""How answers look on the wire: chat.completion and text_completion, whole and in chunks."""

from __future__ import annotations

import secrets
import time
from typing import Any, Protocol

from fewbit.server.output import Delta, Scored, chat_logprobs, completion_logprobs
from fewbit.server.protocol import Order
from fewbit.server.service import Service

Body = dict[str, Any]


class Shape(Protocol):
    def first_chunk(self, index: int) -> Body | None: ...
    def chunk(self, index: int, delta: Delta) -> Body: ...
    def usage_chunk(self, usage: dict[str, int]) -> Body: ...
    def whole(self, deltas: list[Delta], usage: dict[str, int]) -> Body: ...


class _Base:
    prefix = ""
    kind = ""
    chunk_kind = ""

    def __init__(self, service: Service, order: Order) -> None:
        self._token_bytes = service.tokenizer.token_bytes
        self._logprobs = order.logprobs >= 0
        self._head: Body = {
            "id": f"{self.prefix}-{secrets.token_hex(12)}",
            "object": self.chunk_kind,
            "created": int(time.time()),
            "model": service.model,
        }
        self._tail: Body = {"usage": None} if order.include_usage else {}

    def usage_chunk(self, usage: dict[str, int]) -> Body:
        return {**self._head, "choices": [], "usage": usage}

    def _whole(self, choices: list[Body], usage: dict[str, int]) -> Body:
        return {**self._head, "object": self.kind, "choices": choices, "usage": usage}

    def _chunk(self, choice: Body) -> Body:
        return {**self._head, "choices": [choice], **self._tail}


class ChatShape(_Base):
    prefix, kind, chunk_kind = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def first_chunk(self, index: int) -> Body | None:
        return self._chunk(self._choice(index, {"role": "assistant", "content": ""}, None, None))

    def chunk(self, index: int, delta: Delta) -> Body:
        return self._chunk(
            self._choice(index, {"content": delta.text}, self._scores(delta.scored), delta.finish_reason)
        )

    def whole(self, deltas: list[Delta], usage: dict[str, int]) -> Body:
        return self._whole(
            [
                {
                    "index": index,
                    "message": {"role": "assistant", "content": delta.text},
                    "logprobs": self._scores(delta.scored),
                    "finish_reason": delta.finish_reason,
                }
                for index, delta in enumerate(deltas)
            ],
            usage,
        )

    @staticmethod
    def _choice(index: int, delta: Body, logprobs: Body | None, reason: str | None) -> Body:
        return {"index": index, "delta": delta, "logprobs": logprobs, "finish_reason": reason}

    def _scores(self, scored: list[Scored]) -> Body | None:
        return chat_logprobs(scored, self._token_bytes) if self._logprobs else None


class CompletionShape(_Base):
    prefix, kind, chunk_kind = "cmpl", "text_completion", "text_completion"

    def __init__(self, service: Service, order: Order) -> None:
        super().__init__(service, order)
        self._offsets: dict[int, int] = {}  # characters of each choice that earlier chunks scored

    def first_chunk(self, index: int) -> Body | None:
        return None

    def chunk(self, index: int, delta: Delta) -> Body:
        return self._chunk(self._choice(index, delta))

    def whole(self, deltas: list[Delta], usage: dict[str, int]) -> Body:
        return self._whole([self._choice(index, delta) for index, delta in enumerate(deltas)], usage)

    def _choice(self, index: int, delta: Delta) -> Body:
        logprobs = None
        if self._logprobs:
            offset = self._offsets.get(index, 0)
            logprobs = completion_logprobs(delta.scored, self._token_bytes, offset)
            self._offsets[index] = offset + sum(
                len(self._token_bytes[item.token_id].decode(errors="ignore")) for item in delta.scored
            )
        return {
            "index": index,
            "text": delta.text,
            "logprobs": logprobs,
            "finish_reason": delta.finish_reason,
        }
