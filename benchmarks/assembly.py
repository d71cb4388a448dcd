"""An engine over a model, driven turn by turn in this thread, with a clock on its kernels. Needs numpy and msgspec."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from fewbit.engine.channel import Channel
from fewbit.engine.engine import Engine
from fewbit.engine.messages import Failed, Finished, Limits, Submit, Token
from fewbit.engine.runner import PAGE_TOKENS, Runner
from fewbit.engine.sampling_params import SamplingParams
from fewbit.formats import open_checkpoint
from fewbit.kernels.backend import Backend, Runnable, open_backend
from fewbit.kernels.ops.plan import Plan
from fewbit.loader import LoadOptions, load_model
from fewbit.loader.memory import Capacity
from fewbit.platforms.x86.detect import detect

BATCH_TOKENS = 512
CONTEXT_TOKENS = 1024


class KernelClock:
    """Seconds inside the library since `reset`; stands in for a backend's `compile`."""

    def __init__(self, backend: Backend) -> None:
        self.seconds = 0.0
        self._compile = backend.compile
        backend.compile = self.compile  # type: ignore[method-assign]

    def compile(self, plan: Plan) -> Runnable:
        return Timed(self._compile(plan), self)


@dataclass(slots=True)
class Timed:
    runnable: Runnable
    clock: KernelClock

    def run(self) -> None:
        start = time.perf_counter()
        self.runnable.run()
        self.clock.seconds += time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Assembly:
    engine: Engine
    channel: Channel
    clock: KernelClock
    backend: Backend

    def submit(self, request_id: int, prompt: list[int], tokens: int) -> None:
        """Greedy, to the last of `tokens`."""
        self.channel.to_engine.send([Submit(request_id, prompt, SamplingParams(max_tokens=tokens))])

    def turn(self) -> tuple[list[Token], int]:
        """One turn of the engine: the tokens it gave and how many requests it finished."""
        self.engine.turn()
        messages = self.channel.from_engine.receive()
        for message in messages:
            if isinstance(message, Failed):
                raise RuntimeError(message.message)
        tokens = [message for message in messages if isinstance(message, Token)]
        return tokens, sum(isinstance(message, Finished) for message in messages)


def assemble(path: Path, threads: int, activations: str = "auto", max_sequences: int = 1) -> Assembly:
    backend = open_backend("auto", detect(), threads)
    clock = KernelClock(backend)
    pages_each = CONTEXT_TOKENS // PAGE_TOKENS
    capacity = Capacity(BATCH_TOKENS, max_sequences, max_sequences * pages_each + 1, pages_each)
    checkpoint = open_checkpoint(path)
    try:
        loaded = load_model(checkpoint, backend, LoadOptions(activations, capacity))
    finally:
        checkpoint.close()
    runner = Runner(
        loaded.model,
        backend,
        max_rows=capacity.max_rows,
        max_sequences=max_sequences,
        pages=capacity.pages,
        max_pages_per_sequence=pages_each,
    )
    limits = Limits(
        max_context_tokens=CONTEXT_TOKENS,
        max_sequences=max_sequences,
        max_waiting=max_sequences,
        max_batch_tokens=BATCH_TOKENS,
        pages=capacity.pages,
        page_tokens=PAGE_TOKENS,
        vocab=loaded.model.shape.vocab_size,
    )
    runner.claim_thread()
    channel = Channel()
    return Assembly(Engine(runner, limits, channel), channel, clock, backend)
