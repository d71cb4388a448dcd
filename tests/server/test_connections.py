"""Clients that vanish, crawl, never read or speak nonsense cost nothing that lasts."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable

import pytest

from tests.engine.fake_runner import limits
from tests.server.conftest import Running, http
from tests.server.fake_model import VOCAB

LONG = {"prompt": "x", "max_tokens": 4000, "ignore_eos": True, "temperature": 1}


@pytest.fixture(scope="module")
def slow(start: Callable[..., Running]) -> Running:
    """5 ms a step and room for long answers."""
    return start(
        bounds=limits(context=4096, sequences=4, waiting=4, batch=64, pages=4 * 128 + 1, vocab=VOCAB),
        step_s=0.005,
    )


def until(what: Callable[[], bool], most_s: float) -> float:
    began = time.monotonic()
    while not what():
        assert time.monotonic() - began < most_s, "not in time"
        time.sleep(0.005)
    return time.monotonic() - began


def connect(server: Running) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


def request(body: dict[str, object], path: str = "completions") -> bytes:
    content = json.dumps(body).encode()
    head = f"POST /v1/{path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: {len(content)}\r\n\r\n"
    return head.encode() + content


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_frees_its_pages(slow: Running, stream: bool) -> None:
    for _ in range(5):
        client = connect(slow)
        client.sendall(request({**LONG, "stream": stream, "n": 2}))
        until(lambda: slow.free_pages < slow.all_pages, 10)
        client.close()
        until(lambda: slow.free_pages == slow.all_pages, 10)  # LONG itself would hold them for 20 s
    until(lambda: slow.service.in_flight == 0, 1)


def test_a_waiting_request_can_go_away_too(slow: Running) -> None:
    with connect(slow) as first, connect(slow) as second:
        first.sendall(request({**LONG, "n": 4}))
        until(lambda: slow.engine._engine.status().running == 4, 2)
        second.sendall(request({**LONG, "n": 4}))
        until(lambda: slow.engine._engine.status().waiting == 4, 2)
        second.close()
        until(lambda: slow.engine._engine.status().waiting == 0, 0.5)
        assert slow.engine._engine.status().running == 4
    until(lambda: slow.free_pages == slow.all_pages, 10)


def test_full_queue(slow: Running) -> None:
    with connect(slow) as first, connect(slow) as second:
        first.sendall(request({**LONG, "n": 4}))
        second.sendall(request({**LONG, "n": 4}))
        until(lambda: slow.engine._engine.status().waiting == 4, 2)
        answer = http.post(f"{slow.url}/v1/completions", json=LONG)
        assert answer.status_code == 429 and int(answer.headers["retry-after"]) > 0
        assert answer.json()["error"]["code"] == "queue_full"
        assert http.get(f"{slow.url}/health").status_code == 200
    until(lambda: slow.free_pages == slow.all_pages, 10)
    assert http.post(f"{slow.url}/v1/completions", json={**LONG, "max_tokens": 2}).status_code == 200


def test_a_client_that_never_reads_is_cut(start: Callable[..., Running]) -> None:
    server = start(
        bounds=limits(context=4096, sequences=4, waiting=4, batch=64, pages=4 * 128 + 1, vocab=VOCAB)
    )
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.connect(("127.0.0.1", server.port))
    client.sendall(request({**LONG, "max_tokens": 3000, "n": 4, "stream": True, "logprobs": 20}))
    until(lambda: server.free_pages < server.all_pages, 10)
    until(lambda: server.free_pages == server.all_pages and server.service.in_flight == 0, 20)
    received = b""
    with client, contextlib.suppress(ConnectionResetError):
        while piece := client.recv(1 << 16):
            received += piece
    assert b"[DONE]" not in received


NONSENSE = [
    b"\0" * 100,
    b"GET\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET / HTTP/9.9\r\n\r\n",
    b"GET /health HTTP/1.1\r\nHost x\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
    b"GET /health HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
]


@pytest.mark.parametrize("data", NONSENSE, ids=lambda data: repr(data[:30]))
def test_nonsense_is_answered_or_closed(server: Running, data: bytes) -> None:
    with connect(server) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while piece := client.recv(65536):
                answer += piece
        except ConnectionResetError:
            pass
    assert not answer or answer.startswith((b"HTTP/1.1 4", b"HTTP/1.0 4")), answer[:200]
    assert http.get(f"{server.url}/health").status_code == 200


def test_drip_and_pipeline(server: Running) -> None:
    body = {"prompt": "a>", "max_tokens": 5, "temperature": 0}
    with connect(server) as client:
        for byte in request(body):
            client.sendall(bytes([byte]))
        assert b"Hello" in client.recv(65536)
        client.sendall(request(body) * 3)
        answer = b""
        while answer.count(b"Hello") < 3:
            answer += client.recv(65536)
    with connect(server) as client:
        client.sendall(request(body).replace(b"HTTP/1.1", b"HTTP/1.0"))
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        assert b"Hello" in answer


def test_many_streams_at_once(server: Running) -> None:
    """More than the engine runs at a time: all are served."""
    import concurrent.futures

    def ask(index: int) -> int:
        body = {"prompt": f"{index}>", "max_tokens": 20, "temperature": 0, "stream": True}
        with http.stream("POST", f"{server.url}/v1/completions", json=body, timeout=60) as response:
            return sum(line.startswith("data: {") for line in response.iter_lines())

    with concurrent.futures.ThreadPoolExecutor(30) as pool:
        assert list(pool.map(ask, range(60))) == [20] * 60
    assert server.free_pages == server.all_pages


def test_a_request_that_does_not_arrive_is_dropped(
    start: Callable[..., Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fewbit.server.connection.ARRIVAL_S", 0.5)
    server = start()
    for head in (
        b"",
        b"GET /health HTT",
        b"POST /v1/completions HTTP/1.1\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{",
    ):
        with connect(server) as client:
            client.sendall(head)
            began = time.monotonic()
            with contextlib.suppress(ConnectionResetError):
                assert client.recv(100) == b""
            assert 0.3 < time.monotonic() - began < 30
    body = {"prompt": "x", "max_tokens": 300, "ignore_eos": True}
    server.runner.step_s = 0.005
    assert (
        http.post(f"{server.url}/v1/completions", json=body).status_code == 200
    )  # an answer may take longer
