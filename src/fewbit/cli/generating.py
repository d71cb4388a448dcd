"""Sampling settings that `chat` and `run` share, and a blocking client of the engine for both."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fewbit.spec.refusal import FewbitError

if TYPE_CHECKING:
    from fewbit.engine.channel import Channel
    from fewbit.engine.messages import Finished, Token
    from fewbit.engine.sampling_params import SamplingParams


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingConfig:
    """How tokens are chosen.

    Attributes
    ----------
    temperature
        0 takes the likeliest token; higher is more varied.
    top_k
        Choose among so many of the likeliest tokens; 0 is off.
    top_p
        Choose among the likeliest tokens that have this probability together; 1 is off.
    min_p
        Drop tokens less likely than this share of the likeliest; 0 is off.
    seed
        Repeats an answer; by default random for temperatures above 0.
    max_tokens
        Longest answer in tokens; by default until the context is full.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int | None = None
    max_tokens: int | None = None

    def params(self, room_tokens: int, eos_ids: tuple[int, ...]) -> SamplingParams:
        import secrets

        from fewbit.engine.sampling_params import SamplingParams

        return SamplingParams(
            max_tokens=room_tokens if self.max_tokens is None else min(self.max_tokens, room_tokens),
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            seed=secrets.randbits(64) if self.seed is None else self.seed,
            stop_token_ids=eos_ids,
        )


class Client:
    """Submits requests and waits for what comes of them. One user, one thread."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._next_id = 0

    def submit(self, prompts: Sequence[tuple[list[int], SamplingParams]]) -> range:
        from fewbit.engine.messages import Submit

        first, self._next_id = self._next_id, self._next_id + len(prompts)
        self._channel.to_engine.send([Submit(first + i, *prompt) for i, prompt in enumerate(prompts)])
        return range(first, self._next_id)

    def cancel(self, request_id: int) -> None:
        from fewbit.engine.messages import Cancel

        self._channel.to_engine.send([Cancel(request_id)])

    def events(self) -> Iterator[Token | Finished]:
        """Tokens and ends of all requests, for ever. A failure is raised with its sentence."""
        from fewbit.engine.messages import Failed, Finished, Stopped, Token

        while True:
            for message in self._channel.from_engine.receive(0.5):
                match message:
                    case Token() | Finished():
                        yield message
                    case Failed(message=text):
                        raise FewbitError(text)
                    case Stopped(error=error):
                        raise FewbitError(error or "the engine has stopped")
