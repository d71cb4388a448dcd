"""uvicorn's HTTP/1.1 protocol with two additions: a time limit for a request to arrive, and a way to cut a connection."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

ARRIVAL_S = 30.0
HEADER_BYTES = 64 << 10


class Connection(HttpToolsProtocol):
    _deadline: asyncio.TimerHandle | None = None
    _header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_request()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_deadline()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._header_bytes = 0
        self.scope["fewbit.abort"] = self.transport.abort  # type: ignore[typeddict-unknown-key]
        if self._deadline is None:
            self._expect_request()

    def on_url(self, url: bytes) -> None:
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(len(name) + len(value))
        super().on_header(name, value)

    def on_message_complete(self) -> None:
        self._cancel_deadline()
        super().on_message_complete()

    def _expect_request(self) -> None:
        """Headers and body must be here in time, however slowly they drip."""
        self._cancel_deadline()
        self._deadline = self.loop.call_later(ARRIVAL_S, self.transport.abort)

    def _cancel_deadline(self) -> None:
        if self._deadline:
            self._deadline.cancel()
            self._deadline = None

    def _count(self, size: int) -> None:
        self._header_bytes += size
        if self._header_bytes > HEADER_BYTES:
            raise ValueError("headers too large")  # the parser turns it into a 400
