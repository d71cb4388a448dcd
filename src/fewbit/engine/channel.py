"""The way between an engine and its client: frames of bytes, each a batch of messages in msgpack.

Both ends live in one process today. Since only bytes cross, a socket can take this place without a change elsewhere.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from fewbit.engine.messages import FromEngine, ToEngine, WeightsReply

T = TypeVar("T")


class Mailbox(Generic[T]):
    """One direction. Many threads may send, one receives."""

    def __init__(self, kind: type[T]) -> None:
        self._frames: deque[bytes] = deque()
        self._filled = threading.Event()
        self._notify: Callable[[], None] | None = None
        self._encode = msgspec.msgpack.Encoder().encode
        self._decode = msgspec.msgpack.Decoder(list[kind]).decode  # type: ignore[valid-type]

    def send(self, messages: Sequence[T]) -> None:
        """Deliver a batch as one frame: one wake-up of the receiver however many messages it holds."""
        self._frames.append(self._encode(messages))
        self._filled.set()
        if notify := self._notify:
            notify()

    def receive(self, timeout_s: float = 0.0) -> list[T]:
        """All messages that have arrived, after waiting up to `timeout_s` for the first."""
        if not self._frames and timeout_s:
            self._filled.wait(timeout_s)
        self._filled.clear()
        messages: list[T] = []
        while self._frames:
            messages += self._decode(self._frames.popleft())
        return messages

    def on_arrival(self, notify: Callable[[], None] | None) -> None:
        """Call `notify` from the sender's thread after each frame (an event loop's wake-up)."""
        self._notify = notify


class Channel:
    """`weights`: answers to whoever updates weights, which is not who reads the tokens."""

    def __init__(self) -> None:
        self.to_engine: Mailbox[ToEngine] = Mailbox(ToEngine)  # type: ignore[arg-type]
        self.from_engine: Mailbox[FromEngine] = Mailbox(FromEngine)  # type: ignore[arg-type]
        self.weights: Mailbox[WeightsReply] = Mailbox(WeightsReply)
