from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import uvicorn

from fewbit.engine.host import EngineThread
from fewbit.server.launch import Server, listen
from fewbit.server.service import Service
from tests.server.fake_model import build

http = httpx.Client(timeout=60)  # one for all: making one takes 0.1 s


@dataclass
class Running:
    url: str
    port: int
    service: Service
    engine: EngineThread
    runner: Any  # the fake one

    @property
    def free_pages(self) -> int:
        return self.engine._engine.status().free_pages

    @property
    def all_pages(self) -> int:
        return self.engine.limits.pages - 1


def launch(
    service: Service, engine: EngineThread, runner: Any, api_key: str | None
) -> tuple[Running, Callable[[], None]]:
    """A server on a thread, and what ends it."""
    from fewbit.server.app import build_app
    from fewbit.server.connection import Connection

    bound = listen("127.0.0.1", 0)
    ready = threading.Event()
    config = uvicorn.Config(
        build_app(service, api_key), http=Connection, ws="none", lifespan="off", log_config=None, access_log=False,
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = Server(config, service, 5.0, ready.set)
    thread = threading.Thread(target=server.run, args=([bound],), daemon=True)
    thread.start()
    assert ready.wait(10)

    def end() -> None:
        server.should_exit = True
        thread.join(5)
        engine.stop()
        service.tokenizer.close()

    port = bound.getsockname()[1]
    return Running(f"http://127.0.0.1:{port}", port, service, engine, runner), end


@pytest.fixture(scope="module")
def start() -> Iterator[Callable[..., Running]]:
    """Starts servers over fake engines; all end with the module."""
    ends: list[Callable[[], None]] = []

    def begin(api_key: str | None = None, **options: Any) -> Running:
        service, engine, runner = build(**options)
        engine.start()
        running, end = launch(service, engine, runner, api_key)
        ends.append(end)
        return running

    yield begin
    for end in ends:
        end()


@pytest.fixture(scope="module")
def server(start: Callable[..., Running]) -> Running:
    return start()


@pytest.fixture(scope="module")
def demo_server() -> Iterator[Running]:
    """The real engine with the demo model, and a cache of 10 pages for 4 sequences of up to 8."""
    from fewbit.config import EngineConfig, ModelConfig
    from fewbit.demo import demo_path
    from fewbit.engine.load import load
    from fewbit.server.engine_client import EngineClient

    path = demo_path()
    loaded = load(
        path,
        ModelConfig(),
        EngineConfig(context=256, max_sequences=4, queue=16, batch_tokens=64, kv_memory="8MiB"),
    )
    service = Service("demo", loaded.tokenizer, EngineClient(loaded.engine.channel, loaded.engine.limits))
    running, end = launch(service, loaded.engine, None, None)
    yield running
    end()
