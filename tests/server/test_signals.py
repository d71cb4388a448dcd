"""SIGTERM drains and ends with 0; a second signal does not wait."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from tests.conftest import ROOT, cli_environment
from tests.server.conftest import http

Started = tuple[subprocess.Popen[str], str]


@pytest.fixture
def process(request: pytest.FixtureRequest) -> Iterator[Started]:
    drain_s = getattr(request, "param", 20)
    made = subprocess.Popen(
        [sys.executable, "-m", "tests.server.run_fake", "0", str(drain_s), "0.02"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=cli_environment(),
    )  # fmt: skip
    assert made.stdout
    yield made, f"http://127.0.0.1:{int(made.stdout.readline())}"
    made.kill()
    made.communicate()


def body(tokens: int) -> dict[str, object]:
    return {"prompt": "x", "max_tokens": tokens, "ignore_eos": True, "temperature": 0, "stream": True}


def stream(url: str, tokens: int) -> str:
    return http.post(f"{url}/v1/completions", json=body(tokens), timeout=60).text


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_running_requests_finish_new_ones_are_refused(process: Started, number: signal.Signals) -> None:
    made, url = process
    with ThreadPoolExecutor() as pool:
        running = pool.submit(stream, url, 60)
        time.sleep(0.4)
        made.send_signal(number)
        time.sleep(0.1)
        health = http.get(f"{url}/health")
        assert health.status_code == 503 and health.json() == {"status": "draining"}
        refused = http.post(f"{url}/v1/completions", json=body(1))
        assert refused.status_code == 503 and int(refused.headers["retry-after"]) > 0
        text = running.result()
    assert text.count('"finish_reason":"length"') == 1 and text.strip().endswith("[DONE]")
    assert made.wait(10) == 0
    assert made.stderr and "Traceback" not in made.stderr.read()


@pytest.mark.parametrize("process", [0.5], indirect=True)
def test_the_drain_timeout_ends_what_is_left_with_an_error(process: Started) -> None:
    made, url = process
    with ThreadPoolExecutor() as pool:
        running = pool.submit(stream, url, 4000)
        time.sleep(0.4)
        made.terminate()
        assert made.wait(10) == 0
        assert "the server is shutting down" in running.result()


def test_an_idle_server_ends_at_once(process: Started) -> None:
    made, _ = process
    began = time.monotonic()
    made.terminate()
    assert made.wait(10) == 0
    assert time.monotonic() - began < 2


def test_a_second_signal_does_not_wait(process: Started) -> None:
    made, url = process
    with ThreadPoolExecutor() as pool:
        cut = pool.submit(stream, url, 4000)
        time.sleep(0.4)
        made.terminate()
        time.sleep(0.2)
        assert made.poll() is None
        began = time.monotonic()
        made.terminate()
        made.wait(10)
        assert isinstance(cut.exception(), httpx.HTTPError)
    assert time.monotonic() - began < 1.5
