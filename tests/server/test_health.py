"""Health tells the truth, keys are asked for everywhere, faults of the engine reach those whom they concern."""

from __future__ import annotations

import base64
import threading
import time
from collections.abc import Callable

import pytest

from fewbit.server.auth import check_exposure
from fewbit.spec.refusal import FewbitError
from tests.server.conftest import Running, http

BODY = {"prompt": "a>", "max_tokens": 5, "temperature": 0}


def test_a_stalled_engine_is_unhealthy_until_it_moves(start: Callable[..., Running]) -> None:
    server = start(stall_s=1.0)
    hold = threading.Event()
    server.runner.before = lambda batch: hold.wait(10) and None
    assert http.get(f"{server.url}/health").json() == {"status": "ok"}
    thread = threading.Thread(
        target=http.post, args=(f"{server.url}/v1/completions",), kwargs={"json": BODY, "timeout": 30}
    )
    thread.start()
    time.sleep(1.3)
    answer = http.get(f"{server.url}/health")
    assert answer.status_code == 503 and "no progress" in answer.json()["status"]
    refused = http.post(f"{server.url}/v1/completions", json=BODY)
    assert refused.status_code == 503 and refused.headers["retry-after"]
    hold.set()
    thread.join()
    assert http.get(f"{server.url}/health").status_code == 200


def test_an_idle_engine_is_healthy(start: Callable[..., Running]) -> None:
    server = start(stall_s=1.0)
    time.sleep(1.5)
    assert http.get(f"{server.url}/health").status_code == 200


def test_a_dead_engine_fails_its_streams_and_health(start: Callable[..., Running]) -> None:
    server = start()
    scheduler = server.engine._engine.scheduler
    server.runner.before = lambda batch: time.sleep(0.02)

    def broken() -> None:
        raise RuntimeError("at 0xdeadbeef in /secret/path")

    with http.stream(
        "POST",
        f"{server.url}/v1/completions",
        json={**BODY, "max_tokens": 400, "ignore_eos": True, "stream": True},
    ) as stream:
        lines = stream.iter_lines()
        next(lines)
        scheduler.schedule = broken  # type: ignore[method-assign, assignment]
        rest = "\n".join(lines)
    assert (
        '"error"' in rest and "the engine stopped: RuntimeError" in rest and rest.strip().endswith("[DONE]")
    )
    answer = http.get(f"{server.url}/health")
    assert answer.status_code == 503 and "stopped" in answer.json()["status"]
    refused = http.post(f"{server.url}/v1/completions", json=BODY)
    assert refused.status_code == 503 and "secret" not in refused.text and "0x" not in refused.text


def test_a_failing_step_is_a_500_and_the_next_request_works(start: Callable[..., Running]) -> None:
    server = start()

    def burst(batch: object) -> None:
        raise ValueError("at 0xdeadbeef in /secret/path")

    server.runner.before = burst
    answer = http.post(f"{server.url}/v1/completions", json=BODY)
    assert answer.status_code == 500
    assert answer.json()["error"]["type"] == "server_error" and "secret" not in answer.text
    server.runner.before = lambda batch: None
    assert http.post(f"{server.url}/v1/completions", json=BODY).json()["choices"][0]["text"] == "Hello"


def test_nan_names_the_numerics(start: Callable[..., Running]) -> None:
    server = start()
    row = server.runner._row
    server.runner._row = lambda seen: row(seen) * float("nan")  # type: ignore[method-assign]
    answer = http.post(f"{server.url}/v1/completions", json=BODY)
    assert answer.status_code == 500 and answer.json()["error"]["code"] == "numerics" and "NaN" in answer.text


def test_every_route_but_health_needs_the_key(start: Callable[..., Running]) -> None:
    server = start(api_key="s3cret")
    routes = [
        ("GET", "/"),
        ("GET", "/v1/models"),
        ("GET", "/v1/models/fake"),
        ("POST", "/v1/chat/completions"),
        ("POST", "/v1/completions"),
        ("GET", "/nowhere"),
    ]
    basic = base64.b64encode(b"me:s3cret").decode()
    wrong = base64.b64encode(b"me:wrong").decode()
    for method, path in routes:
        for header in (
            "",
            "Bearer",
            "Bearer wrong",
            "Bearer s3cret2",
            "s3cret",
            f"Basic {wrong}",
            "Basic ***",
            "Bearer \xff",
        ):
            headers = {"Authorization": header.encode("latin-1")} if header else {}
            answer = http.request(method, f"{server.url}{path}", headers=headers)
            assert answer.status_code == 401 and answer.json()["error"]["code"] == "invalid_api_key"
        for header in ("Bearer s3cret", f"Basic {basic}"):
            assert (
                http.request(method, f"{server.url}{path}", headers={"Authorization": header}).status_code
                != 401
            )
    assert http.get(f"{server.url}/health").status_code == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])
def test_other_machines_only_with_a_key(host: str) -> None:
    with pytest.raises(FewbitError, match="API key"):
        check_exposure(host, None)
    check_exposure(host, "key")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machine_needs_none(host: str) -> None:
    check_exposure(host, None)
