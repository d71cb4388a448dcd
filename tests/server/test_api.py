"""Answers as OpenAI's client reads them, over a model that is a script."""

from __future__ import annotations

import json
from collections.abc import Callable

import openai
import pytest

from tests.server.conftest import Running, http

ANSWER = "Hello, wörld! 😀 This is the end."
QUESTION = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def client(server: Running) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)


def events(server: Running, path: str, body: dict[str, object]) -> list[dict]:  # type: ignore[type-arg]
    """The events of a stream, which must end with [DONE]."""
    found = []
    with http.stream(
        "POST", f"{server.url}/v1/{path}", json={**body, "stream": True}, timeout=30
    ) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        for line in response.iter_lines():
            if line.startswith("data: "):
                found.append(line.removeprefix("data: "))
    assert found[-1] == "[DONE]"
    return [json.loads(line) for line in found[:-1]]


def test_models(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["fake"]
    assert client.models.retrieve("fake").owned_by == "fewbit"
    with pytest.raises(openai.NotFoundError, match="not 'other'"):
        client.models.retrieve("other")


def test_chat(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="fake", messages=QUESTION, temperature=0)
    assert answer.choices[0].message.content == ANSWER
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.completion_tokens == len(ANSWER.encode()) + 1
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens


def test_chat_stream(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="fake", messages=QUESTION, temperature=0, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert chunks[0].choices[0].delta.role == "assistant" and chunks[0].choices[0].delta.content == ""
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks[:-1]) == ANSWER
    assert not any("\ufffd" in (chunk.choices[0].delta.content or "") for chunk in chunks[:-1])
    assert [chunk.choices[0].finish_reason for chunk in chunks[:-1]] == [None] * (len(chunks) - 2) + ["stop"]
    assert chunks[-1].choices == [] and chunks[-1].usage is not None
    # the role first, then one event per token
    assert len(chunks) - 2 == chunks[-1].usage.completion_tokens == len(ANSWER.encode()) + 1


def test_usage_only_when_asked(server: Running) -> None:
    found = events(server, "chat/completions", {"messages": QUESTION, "temperature": 0})
    assert not any("usage" in event for event in found)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("stop", "expected", "reason"),
    [
        ("wör", "Hello, ", "stop"),
        (["zzz", "! 😀"], "Hello, wörld", "stop"),
        (["wörlds", "wörld!!"], ANSWER, "stop"),
        (["the end.", "end"], "Hello, wörld! 😀 This is the ", "stop"),
        ("H", "", "stop"),
    ],
)
def test_stop_strings(
    server: Running, stream: bool, stop: str | list[str], expected: str, reason: str
) -> None:
    body = {"messages": QUESTION, "temperature": 0, "stop": stop}
    if stream:
        found = events(server, "chat/completions", body)
        text = "".join(event["choices"][0]["delta"].get("content", "") for event in found)
        finish = found[-1]["choices"][0]["finish_reason"]
    else:
        choice = http.post(f"{server.url}/v1/chat/completions", json=body).json()["choices"][0]
        text, finish = choice["message"]["content"], choice["finish_reason"]
    assert (text, finish) == (expected, reason)


def test_max_tokens(client: openai.OpenAI) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        answer = client.chat.completions.create(model="fake", messages=QUESTION, temperature=0, **{name: 5})  # type: ignore[call-overload]
        assert answer.choices[0].message.content == "Hello"
        assert answer.choices[0].finish_reason == "length"


def test_a_character_cut_by_max_tokens_is_left_out(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="fake", messages=QUESTION, temperature=0, max_tokens=9)
    assert answer.choices[0].message.content == "Hello, w"


def test_ignore_eos_and_min_tokens(server: Running) -> None:
    body = {"messages": QUESTION, "temperature": 0, "ignore_eos": True, "max_tokens": 60}
    answer = http.post(f"{server.url}/v1/chat/completions", json=body).json()
    assert answer["usage"]["completion_tokens"] == 60
    assert answer["choices"][0]["message"]["content"].startswith(ANSWER)
    body = {"messages": QUESTION, "temperature": 0, "min_tokens": 50, "max_tokens": 60}
    assert (
        http.post(f"{server.url}/v1/chat/completions", json=body).json()["usage"]["completion_tokens"] == 50
    )
    body = {"messages": QUESTION, "temperature": 0, "min_tokens": 3, "stop": ["l", "o"]}
    assert (
        http.post(f"{server.url}/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"]
        == "Hel"
    )


def test_completions_take_four_kinds_of_prompt(client: openai.OpenAI) -> None:
    ids, other = list(b"a>"), list(b"bc>")
    kinds: list[tuple[object, int]] = [("a>", 1), (["a>", "bc>"], 2), (ids, 1), ([ids, other], 2)]
    for prompt, count in kinds:
        answer = client.completions.create(model="fake", prompt=prompt, temperature=0, max_tokens=5)  # type: ignore[arg-type]
        assert [choice.text for choice in answer.choices] == ["Hello"] * count
        assert [choice.index for choice in answer.choices] == list(range(count))
        assert answer.usage is not None and answer.usage.prompt_tokens == (2 if count == 1 else 5)


def test_completions_default_to_16_tokens(server: Running) -> None:
    answer = http.post(f"{server.url}/v1/completions", json={"prompt": "a>", "temperature": 0}).json()
    assert answer["usage"]["completion_tokens"] == 16


def test_n_and_seeds(client: openai.OpenAI) -> None:
    def texts(seed: int, n: int = 4) -> list[str]:
        answer = client.completions.create(
            model="fake", prompt="a>", max_tokens=8, n=n, seed=seed, temperature=1.5
        )
        return [choice.text for choice in answer.choices]

    first = texts(7)
    assert texts(7) == first and len(set(first)) == 4
    assert texts(7, 1) == first[:1]
    assert texts(-8) != first


def test_seeds_hold_in_company(server: Running) -> None:
    """The same request, alone and in a crowd."""
    import concurrent.futures

    def ask(seed: int) -> str:
        body = {"prompt": "x>", "max_tokens": 12, "seed": seed, "temperature": 1}
        return str(
            http.post(f"{server.url}/v1/completions", json=body, timeout=30).json()["choices"][0]["text"]
        )

    alone = [ask(seed) for seed in range(12)]
    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        assert list(pool.map(ask, range(12))) == alone


def test_chat_logprobs(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model="fake", messages=QUESTION, temperature=0, max_tokens=9, logprobs=True, top_logprobs=3
    )
    assert answer.choices[0].logprobs is not None and answer.choices[0].logprobs.content is not None
    content = answer.choices[0].logprobs.content
    assert bytes(b for item in content for b in item.bytes or []) == ANSWER.encode()[:9]
    for item in content:
        assert len(item.top_logprobs) == 3
        assert item.top_logprobs[0].logprob == item.logprob and item.top_logprobs[0].bytes == item.bytes
    bare = client.chat.completions.create(
        model="fake", messages=QUESTION, temperature=0, max_tokens=2, logprobs=True
    )
    assert bare.choices[0].logprobs is not None and bare.choices[0].logprobs.content is not None
    assert [item.top_logprobs for item in bare.choices[0].logprobs.content] == [[], []]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("max_tokens", [0, 1, 3])
def test_echo_with_logprobs_scores_the_prompt(server: Running, stream: bool, max_tokens: int) -> None:
    """What an evaluation harness reads: a score for each prompt token but the first, the token itself in its top."""
    prompts = [list(b"abc>"), list("dé>".encode())]
    body = {
        "prompt": prompts,
        "max_tokens": max_tokens,
        "logprobs": 1,
        "echo": True,
        "temperature": 0,
        "seed": 1,
    }
    if stream:
        found = events(server, "completions", body)
        choices = []
        for index in range(2):
            pieces = [e["choices"][0] for e in found if e["choices"][0]["index"] == index]
            merged = {key: [x for p in pieces for x in p["logprobs"][key]] for key in pieces[0]["logprobs"]}
            choices.append({"text": "".join(p["text"] for p in pieces), "logprobs": merged})
    else:
        choices = http.post(f"{server.url}/v1/completions", json=body).json()["choices"]
    for prompt, choice in zip(prompts, choices, strict=True):
        scores, top = choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"]
        count = len(prompt) + max_tokens
        assert (
            len(scores)
            == len(top)
            == len(choice["logprobs"]["tokens"])
            == len(choice["logprobs"]["text_offset"])
            == count
        )
        assert choice["text"] == bytes(prompt).decode() + "Hello"[:max_tokens]
        assert scores[0] is None and top[0] is None
        for token, score, entries in list(zip(choice["logprobs"]["tokens"], scores, top, strict=True))[1:]:
            assert entries[token] == score <= max(entries.values())
        assert all(
            score == max(entries.values())
            for score, entries in zip(scores[len(prompt) :], top[len(prompt) :], strict=True)
        )
    assert choices[1]["logprobs"]["tokens"][1:3] == ["bytes:\\xc3", "bytes:\\xa9"]


def test_null_means_absent_and_neutral_values_pass(server: Running) -> None:
    body = {
        "messages": [{"role": "assistant", "content": None, "refusal": None, "tool_calls": None}, *QUESTION],
        "temperature": 0, "max_tokens": 5, "stop": None, "seed": None, "tools": None, "frequency_penalty": 0,
        "presence_penalty": 0.0, "logit_bias": {}, "response_format": {"type": "text"}, "n": None, "user": None,
    }  # fmt: skip
    body.pop("user")
    answer = http.post(f"{server.url}/v1/chat/completions", json=body)
    assert answer.status_code == 200 and answer.json()["choices"][0]["message"]["content"] == "Hello"


def test_content_parts_and_developer_role(server: Running) -> None:
    parts = [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}]
    whole = [{"role": "system", "content": "one\ntwo"}]
    counts = []
    for messages in ([{"role": "developer", "content": parts}], whole):
        body = {"messages": [*messages, *QUESTION], "max_tokens": 1}
        counts.append(
            http.post(f"{server.url}/v1/chat/completions", json=body).json()["usage"]["prompt_tokens"]
        )
    assert counts[0] == counts[1]


def test_context_ends_an_answer(server: Running) -> None:
    body = {"prompt": [1] * 509, "max_tokens": 100, "ignore_eos": True, "temperature": 0}
    answer = http.post(f"{server.url}/v1/completions", json=body).json()
    assert answer["choices"][0]["finish_reason"] == "length" and answer["usage"]["completion_tokens"] == 3


def test_page_is_self_contained(server: Running) -> None:
    answer = http.get(f"{server.url}/")
    assert answer.status_code == 200 and answer.headers["content-type"] == "text/html; charset=utf-8"
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy and "connect-src 'self'" in policy
    assert "http://" not in answer.text and "https://" not in answer.text and " src=" not in answer.text


def test_no_cors(start: Callable[..., Running], server: Running) -> None:
    headers = {"Origin": "http://evil.example", "Access-Control-Request-Method": "POST"}
    answer = http.request("OPTIONS", f"{server.url}/v1/chat/completions", headers=headers)
    assert answer.status_code == 405 and not any(name.startswith("access-control") for name in answer.headers)
