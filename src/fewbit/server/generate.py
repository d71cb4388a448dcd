"""The way of a generating request: check, submit, then send deltas as they come or all at the end.

A client that goes away is noticed in both cases, since someone always listens at `receive`; its pages are then freed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.types import Receive, Scope, Send

from fewbit.engine.messages import Failed, Finished, PromptScores, Token
from fewbit.server.body import Disconnected, read_json
from fewbit.server.engine_client import Job
from fewbit.server.errors import ApiError, send_json
from fewbit.server.output import Choice, Delta
from fewbit.server.protocol import Order
from fewbit.server.service import Service
from fewbit.server.shape import ChatShape, CompletionShape, Shape
from fewbit.server.stream import EventStream

STATUS = {"invalid": 400, "overloaded": 429, "numerics": 500, "internal": 500, "stopped": 503}


class Generate:
    """One of the two endpoints; `shape` says how its answers look, `read` what its bodies may hold."""

    def __init__(
        self,
        service: Service,
        shape: type[ChatShape] | type[CompletionShape],
        read: Callable[[Mapping[str, Any], int], Order],
    ) -> None:
        self._service = service
        self._shape = shape
        self._read = read

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        service = self._service
        service.check_open()
        service.in_flight += 1
        try:
            body = await read_json(scope, receive)
            order = self._read(body, service.engine.limits.max_context_tokens)
            service.check_model(order.model)
            prompts = await service.encode(order)
            job = service.submit(order, prompts)
            async with listening(job, receive):
                answer = Answer(service, order, prompts, job, self._shape(service, order))
                await (answer.stream(send) if order.stream else answer.whole(send))
        except Disconnected:
            scope.get(
                "fewbit.abort", lambda: None
            )()  # unsent bytes of a client that does not read are dropped
            await asyncio.sleep(0)
        finally:
            service.in_flight -= 1


@asynccontextmanager
async def listening(job: Job, receive: Receive) -> AsyncIterator[None]:
    """End the job when the client goes away, or when the block ends, however it ends."""

    async def listen() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        job.abandon()

    listener = asyncio.create_task(listen())
    try:
        yield
    finally:
        listener.cancel()
        job.close()


class Answer:
    def __init__(
        self, service: Service, order: Order, prompts: list[list[int]], job: Job, shape: Shape
    ) -> None:
        self._service = service
        self._order = order
        self._job = job
        self._shape = shape
        self._prompts = prompts
        self._choices = [Choice(service.tokenizer, order, ids) for ids in prompts for _ in range(order.n)]

    async def stream(self, send: Send) -> None:
        shape = self._shape
        events = EventStream(send, self._service.write_timeout_s)
        await events.start()
        events.add(*(shape.first_chunk(index) for index in range(len(self._choices))))
        events.add(
            *(shape.chunk(index, delta) for index, delta in enumerate(self._begin()) if not delta.empty)
        )
        await events.flush()
        try:
            async for steps in self._steps():
                if not steps:
                    await events.ping()
                events.add(*(shape.chunk(index, delta) for index, delta in steps))
                await events.flush()
        except ApiError as error:
            events.add(error.body())
        else:
            if self._order.include_usage:
                events.add(shape.usage_chunk(self._usage()))
        await events.end()

    async def whole(self, send: Send) -> None:
        deltas = self._begin()
        async for steps in self._steps():
            for index, delta in steps:
                total = deltas[index]
                total.text += delta.text
                total.scored += delta.scored
                total.finish_reason = delta.finish_reason
        await send_json(send, self._shape.whole(deltas, self._usage()))

    def _begin(self) -> list[Delta]:
        """What each choice has before its first token."""
        order = self._order
        return [
            choice.begin(self._echo(index // order.n) if order.echo else None)
            for index, choice in enumerate(self._choices)
        ]

    def _echo(self, index: int) -> str:
        prompt = self._order.prompts[index]
        if isinstance(prompt, str):
            return prompt
        token_bytes = self._service.tokenizer.token_bytes
        return b"".join(token_bytes[token_id] for token_id in prompt).decode(errors="replace")

    async def _steps(self) -> AsyncIterator[list[tuple[int, Delta]]]:
        """The deltas of each engine step, at most one a choice; an empty list when nothing came for a while."""
        while any(choice.finish_reason is None for choice in self._choices):
            try:
                async with asyncio.timeout(self._service.ping_s):
                    events = await self._job.take()
            except TimeoutError:
                if trouble := self._service.engine.trouble():
                    raise ApiError(503, trouble, code="engine_unavailable") from None
                yield []
                continue
            steps: list[tuple[int, Delta]] = []
            for index, event in events:
                choice = self._choices[index]
                if choice.finish_reason is not None:
                    continue
                match event:
                    case Token():
                        steps.append((index, choice.token(event)))
                        if choice.finish_reason is not None:
                            self._job.cancel(index)
                    case PromptScores():
                        steps.append((index, choice.scores(event)))
                    case Finished(reason=reason):
                        _end(steps, index, choice.end(reason))
                    case Failed(kind=kind, message=message):
                        headers = {"retry_after": "2"} if STATUS[kind] in (429, 503) else {}
                        raise ApiError(STATUS[kind], message, code=kind, **headers)
            yield steps

    def _usage(self) -> dict[str, int]:
        prompt = sum(len(ids) for ids in self._prompts)
        output = sum(choice.output_tokens for choice in self._choices)
        return {"prompt_tokens": prompt, "completion_tokens": output, "total_tokens": prompt + output}


def _end(steps: list[tuple[int, Delta]], index: int, last: Delta) -> None:
    """Join a choice's end with its last token, which comes in the same step."""
    for at, delta in steps[::-1]:
        if at == index:
            delta.text += last.text
            delta.finish_reason = last.finish_reason
            return
    steps.append((index, last))
