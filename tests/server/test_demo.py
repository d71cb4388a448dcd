"""The real model behind the real server, through OpenAI's client."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
import pytest

from tests.conftest import ROOT, cli_environment
from tests.server.conftest import Running, http
from tests.server.test_connections import connect, request, until

pytestmark = pytest.mark.demo

QUESTION: list[Any] = [{"role": "user", "content": "What is the capital of France?"}]


@pytest.fixture(scope="module")
def client(demo_server: Running) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{demo_server.url}/v1", api_key="none", max_retries=0)


def test_stream(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="demo",
        messages=QUESTION,
        temperature=0,
        max_tokens=20,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1])
    assert "Paris" in text
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == len(chunks) - 2
    whole = client.chat.completions.create(model="demo", messages=QUESTION, temperature=0, max_tokens=20)
    assert whole.choices[0].message.content == text


@pytest.mark.parametrize("stop", ["Paris", "is Par", [" France", "is Paris."]])
def test_stop(client: openai.OpenAI, stop: str | list[str]) -> None:
    whole = client.chat.completions.create(model="demo", messages=QUESTION, temperature=0, max_tokens=20)
    text = whole.choices[0].message.content or ""
    cut = client.chat.completions.create(
        model="demo", messages=QUESTION, temperature=0, max_tokens=20, stop=stop
    )
    first = min(text.index(item) for item in ([stop] if isinstance(stop, str) else stop))
    assert cut.choices[0].message.content == text[:first] and cut.choices[0].finish_reason == "stop"


def test_seeds(client: openai.OpenAI) -> None:
    """The same seed gives the same tokens, alone or among others, whatever chunks a prompt is read in."""

    def ask(seed: int) -> str:
        prompt = "Once upon a time, " * (1 + seed % 2 * 15)
        answer = client.completions.create(
            model="demo", prompt=prompt, temperature=1, max_tokens=10, seed=seed
        )
        return answer.choices[0].text

    alone = [ask(seed) for seed in range(4)]
    assert len(set(alone)) == 4
    assert [ask(seed) for seed in range(2)] == alone[:2]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(ask, range(4))) == alone


def test_scores_of_a_prompt_agree_with_generation(client: openai.OpenAI) -> None:
    """Greedy tokens, fed back as a prompt with echo, get the logprobs that they were chosen with."""
    prompt = "The three primary colours are"
    made = client.completions.create(
        model="demo", prompt=prompt, temperature=0, max_tokens=12, logprobs=1
    ).choices[0]
    assert made.logprobs is not None and made.logprobs.token_logprobs is not None
    echo = client.completions.create(
        model="demo", prompt=prompt + made.text, max_tokens=0, logprobs=1, echo=True
    )
    scored = echo.choices[0].logprobs
    assert scored is not None and scored.token_logprobs and scored.tokens and scored.top_logprobs
    count = len(made.logprobs.token_logprobs)
    assert scored.tokens[-count:] == made.logprobs.tokens
    assert scored.token_logprobs[-count:] == pytest.approx(made.logprobs.token_logprobs, abs=2e-3)
    for token, score, top in list(
        zip(scored.tokens, scored.token_logprobs, scored.top_logprobs, strict=True)
    )[1:]:
        assert top[token] == score


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_frees_its_pages(demo_server: Running, stream: bool) -> None:
    body: dict[str, object] = {
        "prompt": "Once",
        "max_tokens": 250,
        "ignore_eos": True,
        "stream": stream,
        "n": 2,
    }
    with connect(demo_server) as client:
        client.sendall(request(body))
        until(lambda: demo_server.free_pages < demo_server.all_pages, 5)
    until(lambda: demo_server.free_pages == demo_server.all_pages, 1)


def test_more_than_the_cache_holds(demo_server: Running) -> None:
    """Greedy answers of requests that preempt each other are those of requests alone."""
    body = {"prompt": "Q: Name a fruit.\nA:", "temperature": 0, "max_tokens": 80, "ignore_eos": True}
    alone = http.post(f"{demo_server.url}/v1/completions", json=body).json()["choices"][0]["text"]
    many = http.post(f"{demo_server.url}/v1/completions", json={**body, "n": 6}).json()["choices"]
    assert [choice["text"] for choice in many] == [alone] * 6
    assert demo_server.engine._engine.status().preemptions > 0


def test_the_printed_curl_line_works_and_sigterm_while_generating_ends_with_0() -> None:
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    process = subprocess.Popen(
        [sys.executable, "-m", "fewbit.cli.app", "serve", "demo", "--port", "0", "--context", "512"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=cli_environment(),
    )  # fmt: skip
    try:
        assert process.stdout
        lines = [process.stdout.readline() for _ in range(5)]
        command = next(line for line in lines if "curl" in line)
        url = re.search(r"http://127\.0\.0\.1:\d+", command)
        assert url and any(f"page   {url[0]}/" in line for line in lines)
        done = subprocess.run(
            command[command.index("curl") :], shell=True, capture_output=True, text=True, timeout=60
        )
        assert '"finish_reason"' in done.stdout
        body = {"prompt": "Once", "max_tokens": 30, "ignore_eos": True, "stream": True}
        with ThreadPoolExecutor() as pool:
            running = pool.submit(http.post, f"{url[0]}/v1/completions", json=body)
            time.sleep(0.3)
            process.terminate()
            assert running.result().text.strip().endswith("[DONE]")
        assert process.wait(20) == 0
    finally:
        process.kill()
        _, errors = process.communicate()
    assert "Traceback" not in errors
