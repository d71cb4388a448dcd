"""The server's end of the channel: submits jobs, routes the engine's messages to them, and knows whether it is alive."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from fewbit.engine.channel import Channel
from fewbit.engine.messages import (
    Cancel,
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
    Token,
)
from fewbit.engine.sampling_params import SamplingParams
from fewbit.server.body import Disconnected
from fewbit.server.errors import ApiError

JobEvent = Token | PromptScores | Finished | Failed
STALL_S = 60.0


class Job:
    """The choices of one HTTP request: one generation each, whose events come in one stream."""

    def __init__(self, client: EngineClient, first_id: int, choices: int) -> None:
        self._client = client
        self._first_id = first_id
        self._events: list[tuple[int, JobEvent]] = []
        self._arrived = asyncio.Event()
        self._gone = False
        self.open = set(range(choices))

    def push(self, event: JobEvent) -> None:
        choice = event.request_id - self._first_id
        if choice in self.open:
            if isinstance(event, Finished | Failed):
                self.open.discard(choice)
            self._events.append((choice, event))
            self._arrived.set()

    async def take(self) -> list[tuple[int, JobEvent]]:
        """All events since the last call, as (choice, event), after waiting for the first."""
        if not self._events and not self._gone:
            self._arrived.clear()
            await self._arrived.wait()
        if self._gone:
            raise Disconnected
        events, self._events = self._events, []
        return events

    def cancel(self, choice: int) -> None:
        """End one choice: its pages are free after the step that now runs, and no more events of it come."""
        if choice in self.open:
            self.open.discard(choice)
            self._client.cancel([self._first_id + choice])

    def close(self) -> None:
        """End all choices that still run."""
        self._client.cancel([self._first_id + choice for choice in self.open])
        self.open.clear()

    def abandon(self) -> None:
        """The client went away: end everything and wake the one who waits in `take`."""
        self.close()
        self._gone = True
        self._arrived.set()


class EngineClient:
    """Lives on one event loop."""

    def __init__(self, channel: Channel, limits: Limits, stall_s: float = STALL_S) -> None:
        self.limits = limits
        self.status = Status(0, 0, limits.pages - 1, 0, 0)
        self._channel = channel
        self._stall_s = stall_s
        self._jobs: dict[int, Job] = {}
        self._next_id = 0
        self._heard = time.monotonic()
        self._stopped: Stopped | None = None

    def start(self) -> None:
        """Listen, from inside the event loop."""
        loop = asyncio.get_running_loop()

        def wake() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(self._receive)

        self._channel.from_engine.on_arrival(wake)
        self._receive()

    def submit(self, work: Sequence[tuple[list[int], SamplingParams]]) -> Job:
        """Start one generation for each prompt; all are taken or, when the queue is full, none."""
        if trouble := self.trouble():
            raise ApiError(503, trouble, code="engine_unavailable", retry_after="10")
        room = self.limits.max_sequences + self.limits.max_waiting
        if len(self._jobs) + len(work) > room:
            raise ApiError(
                429,
                f"{len(self._jobs)} of {room} places are taken; try again later",
                code="queue_full",
                retry_after="2",
            )
        first_id = self._next_id
        self._next_id += len(work)
        job = Job(self, first_id, len(work))
        self._jobs |= dict.fromkeys(range(first_id, self._next_id), job)
        self._channel.to_engine.send(
            [Submit(first_id + i, prompt, sampling) for i, (prompt, sampling) in enumerate(work)]
        )
        return job

    def cancel(self, request_ids: Sequence[int]) -> None:
        if request_ids:
            self._channel.to_engine.send([Cancel(request_id) for request_id in request_ids])

    def trouble(self) -> str:
        """Why the engine can't serve, "" when it can."""
        if self._stopped:
            return self._stopped.error or "the engine has stopped"
        silent_s = time.monotonic() - self._heard
        return f"the engine has made no progress for {silent_s:.0f} s" if silent_s > self._stall_s else ""

    def shutdown(self) -> None:
        self._channel.to_engine.send([Shutdown()])

    def _receive(self) -> None:
        messages = self._channel.from_engine.receive()
        if messages:
            self._heard = time.monotonic()
        for message in messages:
            self._route(message)

    def _route(self, message: FromEngine) -> None:
        match message:
            case Token() | PromptScores():
                if job := self._jobs.get(message.request_id):
                    job.push(message)
            case Finished() | Failed():
                if job := self._jobs.pop(message.request_id, None):
                    job.push(message)
            case Status():
                self.status = message
            case Stopped():
                self._stopped = message
            case Ready():
                self.limits = message.limits
