from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import httpx
import pytest
import uvicorn

from fewbit.engine.host import EngineThread
from fewbit.server.launch import Server, listen
from fewbit.server.service import Service
from tests.engine.fake_runner import FakeRunner
from tests.server.fake_model import build


http = httpx.Client(timeout=60)  # one for all: making one takes 0.1 s


@dataclass
class Running:
    url: str
    port: int
    service: Service
    engine: EngineThread
    runner: FakeRunner

    @property
    def free_pages(self) -> int:
        return self.engine._engine.status().free_pages

    @property
    def all_pages(self) -> int:
        return self.engine.limits.pages - 1


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., Running]]:
    """Starts servers on threads, each over a fake engine; all end with the module."""
    ends: list[Callable[[], object]] = []

    def begin(api_key: str | None = None, **options: object) -> Running:
        from fewbit.server.app import build_app
        from fewbit.server.connection import Connection

        service, engine, runner = build(**options)  # type: ignore[arg-type]
        engine.start()
        bound = listen("127.0.0.1", 0)
        ready = threading.Event()
        config = uvicorn.Config(
            build_app(service, api_key), http=Connection, ws="none", lifespan="off", log_config=None, access_log=False,
            timeout_graceful_shutdown=1,
        )
        server = Server(config, service, 5.0, ready.set)
        thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
        thread.start()
        assert ready.wait(10)

        def end() -> None:
            server.should_exit = True
            thread.join(5)
            engine.stop()

        ends.append(end)
        port = bound.getsockname()[1]
        return Running(f"http://127.0.0.1:{port}", port, service, engine, runner)

    yield begin
    for end in ends:
        end()


@pytest.fixture(scope="module")
def server(start: Callable[..., Running]) -> Running:
    return start()
