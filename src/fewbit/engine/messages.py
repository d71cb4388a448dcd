"""All that crosses between the engine and its clients. Plain data, so that the engine can be a thread or a process."""

from __future__ import annotations

from typing import Literal

import msgspec

from fewbit.engine.sampling_params import SamplingParams

TopLogprobs = list[tuple[int, float]]  # (token id, logprob), likeliest first
FinishReason = Literal["stop", "length", "cancelled"]
FailureKind = Literal["invalid", "overloaded", "numerics", "internal", "stopped"]


class Message(msgspec.Struct, frozen=True, tag=True, array_like=True):
    """Base of all messages."""


# to the engine


class Submit(Message, frozen=True):
    """Start a request. Its id is the client's to choose and must not be in use."""

    request_id: int
    prompt: list[int]
    sampling: SamplingParams


class Cancel(Message, frozen=True):
    """Stop a request at once and free its pages. Unknown ids are ignored: it may just have finished."""

    request_id: int


class Shutdown(Message, frozen=True):
    """Fail what is left and end the engine."""


class WeightRows(Message, frozen=True):
    """Rows `start`, ... of a new weight, to be held until CommitWeights. `types`: the element of each part by role; `parts`:
    their bytes, in the shapes that the scheme gives them. Answered by WeightsReply."""

    ticket: int
    name: str
    scheme: str
    types: dict[str, str]
    shape: list[int]
    start: int
    parts: dict[str, bytes]


class CommitWeights(Message, frozen=True):
    """Put the weights that are held in place of those that serve, between two steps. Answered by WeightsReply."""

    ticket: int


class DropWeights(Message, frozen=True):
    """Forget the weights that are held."""


ToEngine = Submit | Cancel | Shutdown | WeightRows | CommitWeights | DropWeights


# from the engine


class Limits(msgspec.Struct, frozen=True):
    """What the engine was set up for."""

    max_context_tokens: int
    max_sequences: int
    max_waiting: int
    max_batch_tokens: int
    pages: int
    page_tokens: int
    vocab: int


class Ready(Message, frozen=True):
    limits: Limits


class Token(Message, frozen=True):
    """One token was chosen. Logprob and top are None unless asked for."""

    request_id: int
    token_id: int
    logprob: float | None = None
    top: TopLogprobs | None = None


class PromptScores(Message, frozen=True):
    """Logprobs of prompt tokens start, start + 1, ... each given the tokens before it."""

    request_id: int
    start: int
    logprobs: list[float]
    tops: list[TopLogprobs]


class Finished(Message, frozen=True):
    request_id: int
    reason: FinishReason
    prompt_tokens: int
    output_tokens: int


class Failed(Message, frozen=True):
    request_id: int
    kind: FailureKind
    message: str


class Status(Message, frozen=True):
    """Sent about every half second and when something ended: a sign of life, and the load."""

    running: int
    waiting: int
    free_pages: int
    steps: int
    preemptions: int


class Stopped(Message, frozen=True):
    """The last message of an engine. `error` is empty after Shutdown."""

    error: str = ""


FromEngine = Ready | Token | PromptScores | Finished | Failed | Status | Stopped


class WeightsReply(Message, frozen=True):
    """To the message of that ticket. `error`: why the whole update was dropped, "" when all is well. `tensors`: how many CommitWeights replaced."""

    ticket: int
    tensors: int = 0
    error: str = ""
