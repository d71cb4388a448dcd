"""The server on the real demo model, as its users reach it."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
import urllib.request

import openai
import pytest

pytestmark = pytest.mark.demo

FRANCE = [{"role": "user", "content": "What is the capital of France?"}]


def get(url: str) -> dict:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return json.load(answer)


@pytest.fixture(scope="module")
def client(server) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0, timeout=120)


def test_the_printed_curl_line_answers_sensibly(server):
    """As a user pastes it."""
    done = subprocess.run(["bash", "-c", f"{server.curl} -s"], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout)
    assert "Paris" in answer["choices"][0]["message"]["content"]
    assert answer["usage"]["completion_tokens"] > 3


def test_greedy_it_knows_the_capital_of_france(client):
    answer = client.chat.completions.create(model="demo", messages=FRANCE, temperature=0, max_tokens=32)
    assert answer.choices[0].message.content.startswith("The capital of France is Paris.")


def test_a_stream_is_the_same_answer_in_pieces(client):
    stream = client.chat.completions.create(
        model="demo",
        messages=FRANCE,
        temperature=0,
        max_tokens=24,
        stream=True,
        stream_options={"include_usage": True},
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    whole = client.chat.completions.create(model="demo", messages=FRANCE, temperature=0, max_tokens=24)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    assert len(chunks) > 6


def test_eight_at_once_answer_as_one_alone_does(client):
    """What else is in the batch changes nothing: rows are batch-invariant."""
    prompts = ["The capital of France is", "One two three", "Once upon a time", "def main():"] * 2

    def complete(prompt: str) -> str:
        return (
            client.completions.create(model="demo", prompt=prompt, temperature=0, max_tokens=12)
            .choices[0]
            .text
        )

    alone = {prompt: complete(prompt) for prompt in dict.fromkeys(prompts)}
    found: dict[int, str] = {}
    threads = [
        threading.Thread(target=lambda i=i, p=p: found.__setitem__(i, complete(p)))
        for i, p in enumerate(prompts)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {i: alone[prompt] for i, prompt in enumerate(prompts)}


def test_seeds_repeat_and_differ(client):
    def sample(seed: int) -> str:
        answer = client.completions.create(
            model="demo", prompt="My favourite", temperature=1.0, seed=seed, max_tokens=16
        )
        return answer.choices[0].text

    assert sample(1) == sample(1)
    assert len({sample(seed) for seed in range(4)}) > 1


def test_a_parameter_that_is_not_known_is_named(client):
    with pytest.raises(openai.BadRequestError) as caught:
        client.completions.create(model="demo", prompt="a", extra_body={"mirostat": 2})
    assert "mirostat" in str(caught.value)


def test_a_prompt_longer_than_the_context_is_refused_and_the_server_goes_on(server, client):
    with pytest.raises(openai.BadRequestError, match="1024"):
        client.completions.create(model="demo", prompt="word " * 2000)
    assert get(f"{server.url}/health")["status"] == "ok"


def test_a_client_that_vanishes_frees_its_place(server):
    body = {"model": "demo", "prompt": "a", "max_tokens": 900, "ignore_eos": True, "stream": True}
    request = urllib.request.Request(
        f"{server.url}/v1/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    answer = urllib.request.urlopen(request, timeout=60)
    answer.read(64)
    answer.close()
    deadline = time.monotonic() + 30
    while get(f"{server.url}/health").get("running", 0) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert get(f"{server.url}/health").get("running", 0) == 0


def test_sigterm_while_generating_lets_the_answer_finish_and_exits_with_0(own_server):
    client = openai.OpenAI(base_url=f"{own_server.url}/v1", api_key="none", max_retries=0, timeout=120)
    stream = client.completions.create(
        model="demo", prompt="a", max_tokens=48, stream=True, temperature=0, extra_body={"ignore_eos": True}
    )
    chunks = iter(stream)
    next(chunks)
    own_server.process.send_signal(signal.SIGTERM)
    rest = list(chunks)
    assert rest[-1].choices[0].finish_reason == "length"
    assert own_server.process.wait(60) == 0
    assert "Traceback" not in own_server.process.stderr.read()
