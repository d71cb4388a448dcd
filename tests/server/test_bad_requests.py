"""Every bad request gets a 4xx with a sentence that names the parameter, and the server goes on."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.server.conftest import Running, http

CHAT = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 2}
TEXT = {"prompt": "a>", "max_tokens": 2}
CONTEXT = 512

# parameter, lowest, highest, step beyond
NUMBERS: list[tuple[str, float, float, float]] = [
    ("temperature", 0, 2, 1e-9),
    ("top_p", 1e-9, 1, 1e-9),
    ("min_p", 0, 1, 1e-9),
    ("top_k", -1, 2**31 - 1, 1),
    ("n", 1, 16, 1),
    ("seed", -(2**63), 2**63 - 1, 1),
    ("max_tokens", 1, CONTEXT, 1),
    ("max_completion_tokens", 1, CONTEXT, 1),
    ("min_tokens", 0, CONTEXT, 1),
    ("top_logprobs", 0, 20, 1),
]
INTEGERS = ("top_k", "n", "seed", "max_tokens", "max_completion_tokens", "min_tokens", "top_logprobs")


def post(server: Running, path: str, body: Any) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    headers = {"content-type": "application/json"}
    return http.post(f"{server.url}/v1/{path}", content=content, headers=headers, timeout=30)


def refused(answer: httpx.Response, status: int = 400) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert error["message"] and "Traceback" not in error["message"] and "0x" not in error["message"]
    return dict(error)


def chat(name: str, value: Any) -> dict[str, Any]:
    body: dict[str, Any] = {
        key: item
        for key, item in CHAT.items()
        if not (name == "max_completion_tokens" and key == "max_tokens")
    }
    if name == "min_tokens":
        body["max_tokens"] = CONTEXT
    if name == "top_logprobs":
        body["logprobs"] = True
    return {**body, name: value}


@pytest.mark.parametrize(
    ("name", "low", "high", "step"), NUMBERS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_numbers_at_both_ends(server: Running, name: str, low: float, high: float, step: float) -> None:
    for value in (low, high):
        assert post(server, "chat/completions", chat(name, value)).status_code == 200, value
    for value in (
        low - step if name != "top_p" else 0,
        high + step,
        -1e30,
        1e30,
        2**63,
        -(2**63) - 1,
        10**400,
    ):
        error = refused(post(server, "chat/completions", chat(name, value)))
        assert error["param"] == name and name in error["message"]


@pytest.mark.parametrize("name", [name for name, *_ in NUMBERS])
@pytest.mark.parametrize("value", [True, False, "1", [], {}, [1]], ids=repr)
def test_numbers_of_another_type(server: Running, name: str, value: object) -> None:
    assert refused(post(server, "chat/completions", chat(name, value)))["param"] == name


@pytest.mark.parametrize("name", INTEGERS)
def test_integers_are_not_fractions(server: Running, name: str) -> None:
    for value in (1.5, 1.0, 1e3):
        assert refused(post(server, "chat/completions", chat(name, value)))["param"] == name


@pytest.mark.parametrize("literal", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e400"])
def test_numbers_that_are_none(server: Running, literal: str) -> None:
    body = json.dumps(CHAT)[:-1] + f', "temperature": {literal}}}'
    refused(post(server, "chat/completions", body.encode()))


CASES: list[tuple[str, dict[str, Any], str]] = [
    ("chat/completions", {"messages": None}, "messages"),
    ("chat/completions", {"messages": []}, "messages"),
    ("chat/completions", {"messages": "hi"}, "messages"),
    ("chat/completions", {"messages": [{"role": "user", "content": "x"}] * 4097}, "messages"),
    ("chat/completions", {"messages": ["hi"]}, "messages[0]"),
    ("chat/completions", {"messages": [{"role": "wizard", "content": "x"}]}, "messages[0].role"),
    ("chat/completions", {"messages": [{"role": "tool", "content": "x"}]}, "messages[0].role"),
    ("chat/completions", {"messages": [{"content": "x"}]}, "messages[0].role"),
    ("chat/completions", {"messages": [{"role": "user"}]}, "messages[0].content"),
    ("chat/completions", {"messages": [{"role": "user", "content": 5}]}, "messages[0].content"),
    ("chat/completions", {"messages": [{"role": "user", "content": "x", "name": "y"}]}, "messages[0].name"),
    (
        "chat/completions",
        {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
        "messages[0].content[0]",
    ),
    ("chat/completions", {"stop": ""}, "stop"),
    ("chat/completions", {"stop": ["a", ""]}, "stop"),
    ("chat/completions", {"stop": ["a"] * 17}, "stop"),
    ("chat/completions", {"stop": "x" * 257}, "stop"),
    ("chat/completions", {"stop": 5}, "stop"),
    ("chat/completions", {"stream": "yes"}, "stream"),
    ("chat/completions", {"stream": 1}, "stream"),
    ("chat/completions", {"stream_options": {"include_usage": True}}, "stream_options"),
    ("chat/completions", {"stream": True, "stream_options": {"usage": True}}, "stream_options.usage"),
    ("chat/completions", {"logprobs": 3}, "logprobs"),
    ("chat/completions", {"top_logprobs": 3}, "top_logprobs"),
    ("chat/completions", {"max_tokens": 3, "max_completion_tokens": 4}, "max_tokens"),
    ("chat/completions", {"min_tokens": 3}, "min_tokens"),
    ("chat/completions", {"model": 7}, "model"),
    ("chat/completions", {"chat_template_kwargs": {"tokenize": True}}, "chat_template_kwargs.tokenize"),
    (
        "chat/completions",
        {"chat_template_kwargs": {"enable_thinking": "no"}},
        "chat_template_kwargs.enable_thinking",
    ),
    ("chat/completions", {"prompt": "x"}, "prompt"),
    ("chat/completions", {"echo": True}, "echo"),
    *[
        ("chat/completions", {name: value}, name)
        for name, value in {
            "tools": [{"type": "function"}],
            "tool_choice": "auto",
            "response_format": {"type": "json_object"},
            "logit_bias": {"5": 1},
            "frequency_penalty": 0.5,
            "presence_penalty": -1,
            "frequency_penalty ": 0,
            "repetition_penalty": 1.1,
            "best_of": 2,
            "user": "me",
            "metadata": {},
            "chat_template": "{{ 1 }}",
            "prompt_logprobs": -1,
            "stop_token_ids": [1],
            "top_logprob": 1,
            "Temperature": 1,
            "x\r\ny": 1,
            "": 1,
        }.items()
    ],
    ("completions", {"prompt": None}, "prompt"),
    ("completions", {"prompt": ""}, "prompt"),
    ("completions", {"prompt": []}, "prompt"),
    ("completions", {"prompt": [[]]}, "prompt"),
    ("completions", {"prompt": ["a", 5]}, "prompt"),
    ("completions", {"prompt": [1, "a"]}, "prompt"),
    ("completions", {"prompt": [[1], "a"]}, "prompt"),
    ("completions", {"prompt": [True]}, "prompt"),
    ("completions", {"prompt": [1.5]}, "prompt"),
    ("completions", {"prompt": [-1]}, "prompt"),
    ("completions", {"prompt": [260]}, "prompt"),
    ("completions", {"prompt": [2**31]}, "prompt"),
    ("completions", {"prompt": [2**64]}, "prompt"),
    ("completions", {"prompt": ["a>"] * 257}, "prompt"),
    ("completions", {"prompt": ["a>"] * 41}, "n"),
    ("completions", {"prompt": ["a>"] * 20, "n": 16}, "n"),
    ("completions", {"logprobs": 21}, "logprobs"),
    ("completions", {"logprobs": -1}, "logprobs"),
    ("completions", {"logprobs": True}, "logprobs"),
    ("completions", {"max_tokens": 0}, "max_tokens"),
    ("completions", {"max_tokens": 0, "echo": True}, "max_tokens"),
    ("completions", {"max_tokens": 0, "logprobs": 1}, "max_tokens"),
    ("completions", {"suffix": "x"}, "suffix"),
    ("completions", {"messages": []}, "messages"),
]


@pytest.mark.parametrize(("path", "change", "param"), CASES, ids=[f"{p}-{str(c)[:40]}" for p, c, _ in CASES])
def test_the_parameter_is_named(server: Running, path: str, change: dict[str, Any], param: str) -> None:
    error = refused(post(server, path, {**(CHAT if path.startswith("chat") else TEXT), **change}))
    assert error["param"] == param
    assert "\r" not in error["message"] and "\n" not in error["message"]


BODIES: list[tuple[str, bytes]] = [
    ("empty", b""),
    ("not JSON", b"hello"),
    ("cut", b'{"messages": ['),
    ("a list", b"[]"),
    ("a string", b'"x"'),
    ("null", b"null"),
    ("deep lists", b'{"messages": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"),
    ("deep objects", b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    ("duplicate key", b'{"prompt": "a>", "max_tokens": 1, "max_tokens": 2}'),
    ("nested duplicate key", b'{"messages": [{"role": "user", "role": "system", "content": "x"}]}'),
    ("half a surrogate", b'{"prompt": "\\ud800"}'),
    ("not UTF-8", b'{"prompt": "\xff"}'),
    ("UTF-16", '{"prompt": "a"}'.encode("utf-16")),
    ("long number", b'{"max_tokens": ' + b"9" * 5000 + b"}"),
    ("trailing", b'{"prompt": "a>"} x'),
    ("NUL", b"\0"),
]


@pytest.mark.parametrize("path", ["chat/completions", "completions"])
@pytest.mark.parametrize(("name", "body"), BODIES, ids=[name for name, _ in BODIES])
def test_bodies(server: Running, path: str, name: str, body: bytes) -> None:
    refused(post(server, path, body))


def test_prompt_longer_than_the_context(server: Running) -> None:
    error = refused(post(server, "completions", {"prompt": [1] * 600, "max_tokens": 2}))
    assert error["code"] == "context_length_exceeded"
    assert "600" in error["message"] and "512" in error["message"]
    assert "1000" in refused(post(server, "completions", {"prompt": "x" * 1000}))["message"]
    assert "at least" in refused(post(server, "completions", {"prompt": "x" * 1_000_000}))["message"]
    assert (
        refused(post(server, "chat/completions", {"messages": [{"role": "user", "content": "x" * 1000}]}))[
            "param"
        ]
        == "messages"
    )
    assert (
        post(
            server, "completions", {"prompt": [1] * 512, "max_tokens": 0, "echo": True, "logprobs": 0}
        ).status_code
        == 200
    )
    refused(post(server, "completions", {"prompt": [1] * 512, "max_tokens": 1}))


def test_unknown_model_and_routes(server: Running) -> None:
    error = refused(post(server, "chat/completions", {**CHAT, "model": "gpt-9"}), 404)
    assert error["code"] == "model_not_found" and error["param"] == "model"
    for path in (
        "/v2/models",
        "/v1/embeddings",
        "/v1/models/",
        "/health/",
        "/../etc/passwd",
        "/v1/models/..%2f..%2fetc",
        "/%00",
    ):
        refused(http.get(f"{server.url}{path}"), 404)
    refused(http.get(f"{server.url}/v1/chat/completions"), 405)
    refused(http.post(f"{server.url}/v1/models"), 405)
    refused(http.delete(f"{server.url}/health"), 405)


def test_media_type_and_size(server: Running) -> None:
    url = f"{server.url}/v1/completions"
    refused(http.post(url, content=b'{"prompt": "a"}'), 415)
    refused(http.post(url, data={"prompt": "a"}), 415)
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    refused(http.post(url, content=b"x", headers=headers), 415)
    assert (
        http.post(
            url,
            content=json.dumps(TEXT).encode(),
            headers={"content-type": "application/json; charset=utf-8"},
        ).status_code
        == 200
    )
    big = b'{"prompt": "' + b"x" * (5 << 20) + b'"}'
    refused(http.post(url, content=big, headers={"content-type": "application/json"}), 413)

    def chunks():  # type: ignore[no-untyped-def]
        for _ in range(80):
            yield b" " * 65536

    refused(http.post(url, content=chunks(), headers={"content-type": "application/json"}), 413)


def test_a_good_request_still_works_and_nothing_leaked(server: Running) -> None:
    answer = post(server, "completions", {**TEXT, "temperature": 0, "max_tokens": 5})
    assert answer.json()["choices"][0]["text"] == "Hello"
    assert server.free_pages == server.all_pages and server.service.in_flight == 0
