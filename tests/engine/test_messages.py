"""Everything that crosses the channel survives msgpack, so that the engine can be a process of its own."""

from __future__ import annotations

import threading
import time
from typing import get_args

import msgspec
import pytest

from fewbit.engine import messages
from fewbit.engine.channel import Channel
from fewbit.engine.messages import (
    Cancel,
    CommitWeights,
    DropWeights,
    Failed,
    Finished,
    FromEngine,
    Limits,
    PromptScores,
    Ready,
    Shutdown,
    Status,
    Stopped,
    Submit,
    ToEngine,
    Token,
    WeightRows,
    WeightsReply,
)
from fewbit.engine.sampling_params import RequestError, SamplingParams

PARAMS = SamplingParams(
    max_tokens=5,
    temperature=0.7,
    top_k=40,
    seed=2**64 - 1,
    stop_token_ids=(1, 2),
    top_logprobs=20,
    prompt_logprobs=0,
)
ROWS = WeightRows(
    3, "w", "i4g32", {"codes": "i4", "scale": "f16"}, [1, 32], 0, {"codes": bytes(range(32)), "scale": b"ab"}
)
TO_ENGINE = [Submit(1, [1, 2, 3], PARAMS), Cancel(2**40), Shutdown(), ROWS, CommitWeights(4), DropWeights()]
FROM_ENGINE = [
    Ready(Limits(8192, 16, 128, 512, 4097, 32, 49152)),
    Token(1, 5),
    Token(1, 5, -0.25, [(5, -0.25), (6, -1.5)]),
    PromptScores(1, 1, [-9999.0, -0.1], [[(1, -0.1)], []]),
    Finished(1, "stop", 10, 2),
    Failed(1, "numerics", "NaN"),
    Status(1, 2, 3, 4, 5),
    Stopped("why"),
]


def test_every_message_is_covered() -> None:
    assert {type(message) for message in TO_ENGINE} == set(get_args(ToEngine))
    assert {type(message) for message in FROM_ENGINE} == set(get_args(FromEngine))
    defined = {
        kind
        for kind in vars(messages).values()
        if isinstance(kind, type) and issubclass(kind, messages.Message)
    }
    assert defined - {messages.Message} == set(get_args(ToEngine)) | set(get_args(FromEngine)) | {
        WeightsReply
    }


def test_round_trip() -> None:
    channel = Channel()
    channel.to_engine.send(TO_ENGINE)
    channel.from_engine.send(FROM_ENGINE[:3])
    channel.from_engine.send(FROM_ENGINE[3:])
    assert channel.to_engine.receive() == TO_ENGINE
    assert channel.from_engine.receive() == FROM_ENGINE
    assert channel.from_engine.receive() == []


def test_only_bytes_cross() -> None:
    channel = Channel()
    channel.to_engine.send(TO_ENGINE)
    (frame,) = channel.to_engine._frames
    assert type(frame) is bytes
    assert msgspec.msgpack.decode(frame)[1] == ["Cancel", 2**40]


def test_receive_wakes_up_and_times_out() -> None:
    channel = Channel()
    began = time.monotonic()
    assert channel.to_engine.receive(0.05) == []
    assert time.monotonic() - began > 0.04
    threading.Timer(0.05, channel.to_engine.send, [[Cancel(1)]]).start()
    assert channel.to_engine.receive(10) == [Cancel(1)]


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"max_tokens": -1}, "max_tokens must lie between 0"),
        ({"max_tokens": 0}, "generates nothing"),
        ({"temperature": -0.1}, "temperature must lie between 0 and 100, got -0.1"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"top_p": 0.0}, "top_p must be above 0"),
        ({"top_p": 1.01}, "top_p"),
        ({"min_p": -1e-9}, "min_p"),
        ({"top_k": -1}, "top_k"),
        ({"top_k": 2**31}, "top_k"),
        ({"seed": 2**64}, "seed"),
        ({"min_tokens": 6}, "min_tokens must lie between 0 and 5"),
        ({"top_logprobs": 21}, "top_logprobs"),
        ({"prompt_logprobs": 10**9}, "prompt_logprobs"),
        ({"top_k": True}, "top_k"),
    ],
)
def test_sampling_params_are_checked(values: dict[str, object], text: str) -> None:
    with pytest.raises(RequestError, match=text.replace("+", r"\+")):
        SamplingParams(**{"max_tokens": 5, **values})  # type: ignore[arg-type]
