"""The server as a process: its socket, its signals, its end.

SIGTERM or Ctrl-C drains: /health says 503, new requests are refused with Retry-After, running ones may finish within the
drain timeout, then the process ends with 0. A second signal ends it at once.
"""

from __future__ import annotations

import errno
import resource
import socket
import time
from collections.abc import Callable
from types import FrameType

import uvicorn

from fewbit.server.app import build_app
from fewbit.server.connection import Connection
from fewbit.server.service import Service
from fewbit.spec.refusal import FewbitError

LINGER_S = 1  # for answers to leave once everything has ended


def listen(host: str, port: int) -> socket.socket:
    """A bound socket; taken before the model is loaded, so that a used port shows at once."""
    try:
        if not 0 <= port <= 65535:
            raise OverflowError  # the resolver would take it modulo 2**16
        family, kind, proto, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (socket.gaierror, UnicodeError, OverflowError):
        raise FewbitError(
            f"host {host!r} port {port} is no address to listen on; try --host 127.0.0.1 --port 8000"
        ) from None
    bound = socket.socket(family, kind, proto)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind(address)
        bound.listen(2048)
    except OSError as error:
        bound.close()
        if error.errno == errno.EADDRINUSE:
            raise FewbitError(
                f"port {port} of {host} is in use; stop the other server or choose another --port"
            ) from None
        raise FewbitError(f"can't listen on {host} port {port}: {error.strerror}") from None
    return bound


class Server(uvicorn.Server):
    """uvicorn, which by itself would wait for open streams for ever and then end by the signal."""

    def __init__(
        self, config: uvicorn.Config, service: Service, drain_s: float, ready: Callable[[], None]
    ) -> None:
        super().__init__(config)
        self._service = service
        self._drain_s = drain_s
        self._deadline = 0.0
        self._ready = ready
        self._stopping = False

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.engine.start()
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._service.draining:
            self.should_exit = self.force_exit = True
        self._service.draining = True
        self._deadline = time.monotonic() + self._drain_s

    async def on_tick(self, counter: int) -> bool:
        if self._service.draining:
            if not self._service.in_flight:
                self.should_exit = True
            elif time.monotonic() > self._deadline and not self._stopping:
                self._stopping = True  # running requests now end with an error that says so
                self._deadline += LINGER_S
                self._service.engine.shutdown()
            elif time.monotonic() > self._deadline:
                self.should_exit = True
        return await super().on_tick(counter)


def serve(
    service: Service,
    bound: socket.socket,
    api_key: str | None,
    drain_s: float,
    ready: Callable[[], None] = lambda: None,
) -> None:
    """Serve until a signal. Returns when all is drained."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    config = uvicorn.Config(
        build_app(service, api_key),
        http=Connection,
        ws="none",
        loop="uvloop",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=LINGER_S,
    )
    Server(config, service, drain_s, ready).run([bound])
