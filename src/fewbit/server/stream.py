"""Server-sent events, written straight to the ASGI `send`: one write a step, whatever it holds.

The transport blocks `send` when the client does not read; after the write timeout the connection is cut.
"""

from __future__ import annotations

import asyncio

import msgspec
from starlette.types import Send

from fewbit.server.body import Disconnected

HEADERS = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
]
_encode = msgspec.json.Encoder().encode


class EventStream:
    def __init__(self, send: Send, write_timeout_s: float) -> None:
        self._send = send
        self._timeout_s = write_timeout_s
        self._pending = bytearray()

    async def start(self) -> None:
        await self._send({"type": "http.response.start", "status": 200, "headers": HEADERS})

    def add(self, *events: object) -> None:
        for event in events:
            if event is not None:
                self._pending += b"data: " + _encode(event) + b"\n\n"

    async def flush(self, more: bool = True) -> None:
        if not self._pending and more:
            return
        body, self._pending = bytes(self._pending), bytearray()
        try:
            async with asyncio.timeout(self._timeout_s):
                await self._send({"type": "http.response.body", "body": body, "more_body": more})
        except TimeoutError:
            raise Disconnected from None

    async def ping(self) -> None:
        """A comment, which clients skip and proxies count as life."""
        self._pending += b": waiting\n\n"
        await self.flush()

    async def end(self) -> None:
        self._pending += b"data: [DONE]\n\n"
        await self.flush(more=False)
