"""The engine's loop: take messages, schedule, run one step, send what came of it.

A request can fail, the engine does not: an exception in a step ends the requests of that step with an error that says so.
"""

from __future__ import annotations

import logging
import time
from typing import Protocol

import numpy as np

from fewbit.engine.batch import BatchBuilder
from fewbit.engine.channel import Channel
from fewbit.engine.kv_pool import KvPool
from fewbit.engine.messages import (
    Cancel,
    CommitWeights,
    DropWeights,
    Failed,
    FailureKind,
    Finished,
    FinishReason,
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
)
from fewbit.engine.runner import BatchInput, BatchOutput
from fewbit.engine.scheduler import Chunk, Schedule, Scheduler
from fewbit.engine.scoring import LOGPROB_FLOOR, score
from fewbit.engine.sequence import Sequence
from fewbit.engine.uniform import stream
from fewbit.engine.update import WeightStore, take

log = logging.getLogger(__name__)

STATUS_S = 0.5
SCORE_TOKENS = 64  # rows of logits held at once: 64 x 150k x 4 bytes = 38 MB
NAN = "the model's logits hold NaN at token {}, so its numerics failed: a damaged checkpoint or a kernel fault; try --activations 16"


class StepRunner(Protocol):
    """What the engine needs of a runner."""

    def run(self, batch: BatchInput) -> BatchOutput: ...
    def logits(self, batch: BatchInput) -> np.ndarray: ...


class Engine:
    def __init__(
        self,
        runner: StepRunner,
        limits: Limits,
        channel: Channel,
        max_score_tokens: int = SCORE_TOKENS,
        weights: WeightStore | None = None,
    ) -> None:
        if limits.max_context_tokens > (limits.pages - 1) * limits.page_tokens:
            raise ValueError(
                f"{limits.pages} pages can't hold one context of {limits.max_context_tokens} tokens"
            )
        self.limits = limits
        self._runner = runner
        self._channel = channel
        self._weights = weights
        self._pool = KvPool(limits.pages)
        self.scheduler = Scheduler(
            self._pool,
            limits.page_tokens,
            limits.max_sequences,
            limits.max_batch_tokens,
            min(max_score_tokens, limits.max_batch_tokens),
        )
        max_pages = -(-limits.max_context_tokens // limits.page_tokens)
        self._builder = BatchBuilder(
            limits.max_batch_tokens, limits.max_sequences, max_pages, limits.page_tokens
        )
        self._sequences: dict[int, Sequence] = {}
        self._outbox: list[FromEngine] = []
        self._arrivals = 0
        self._steps = 0
        self._status_due = 0.0
        self._stopping = False

    def run(self) -> None:
        """Serve until Shutdown. The last message is Stopped, whatever happens."""
        error = "the engine ended unexpectedly"
        try:
            self._outbox.append(Ready(self.limits))
            while not self._stopping:
                self.turn(STATUS_S)
            error = ""
        except Exception as fault:
            log.exception("the engine stopped")
            error = f"the engine stopped: {type(fault).__name__}"
        finally:
            for sequence in list(self._sequences.values()):
                self._fail(sequence, "stopped", error or "the server is shutting down")
            self._outbox.append(Stopped(error))
            self._flush()

    def turn(self, wait_s: float = 0.0) -> None:
        """One round of the loop: messages, at most one step, answers."""
        for message in self._channel.to_engine.receive(
            wait_s if self.scheduler.idle and not self._outbox else 0.0
        ):
            self._handle(message)
        if not self.scheduler.idle:
            self._step()
        now = time.monotonic()
        if now >= self._status_due:
            self._status_due = now + STATUS_S
            self._outbox.append(self.status())
        self._flush()

    def status(self) -> Status:
        scheduler = self.scheduler
        return Status(
            len(scheduler.running),
            len(scheduler.waiting),
            self._pool.free_pages,
            self._steps,
            scheduler.preemptions,
        )

    def _handle(self, message: ToEngine) -> None:
        match message:
            case Submit():
                self._submit(message)
            case Cancel(request_id):
                if sequence := self._sequences.get(request_id):
                    self._finish(sequence, "cancelled")
            case Shutdown():
                self._stopping = True
            case WeightRows() | CommitWeights():
                self._update(message)
            case DropWeights():
                if self._weights:
                    self._weights.abandon()

    def _update(self, message: WeightRows | CommitWeights) -> None:
        """Messages are read between steps, so a step sees either the old weights or the new. What sequences computed with the
        old ones is computed anew."""
        reply = take(message, self._weights)
        if isinstance(message, CommitWeights) and not reply.error:
            self.scheduler.restart()
        self._channel.weights.send([reply])

    def _submit(self, message: Submit) -> None:
        refusal = self._refusal(message)
        if refusal:
            self._outbox.append(Failed(message.request_id, *refusal))
            return
        prompt, sampling = message.prompt, message.sampling
        self._arrivals += 1
        sequence = Sequence(
            request_id=message.request_id,
            arrival=self._arrivals,
            tokens=list(prompt),
            prompt_tokens=len(prompt),
            sampling=sampling,
            limit_tokens=min(len(prompt) + sampling.max_tokens, self.limits.max_context_tokens),
            stream=stream(sampling.seed),
        )
        self._sequences[message.request_id] = sequence
        if sampling.max_tokens == 0 and not sequence.unscored:  # a prompt of one token has nothing to score
            self._finish(sequence, "length", waiting=False)
            return
        self.scheduler.add(sequence)

    def _refusal(self, message: Submit) -> tuple[FailureKind, str] | None:
        limits, prompt = self.limits, message.prompt
        room = limits.max_context_tokens - (message.sampling.max_tokens > 0)
        if message.request_id in self._sequences:
            return "invalid", f"request id {message.request_id} is in use"
        if not prompt:
            return "invalid", "the prompt is empty; it needs at least one token"
        if len(prompt) > room:
            return "invalid", (
                f"the prompt has {len(prompt)} tokens, and the context of {limits.max_context_tokens} leaves room for "
                f"{room}; shorten it or start the server with a larger --context"
            )
        if not 0 <= min(prompt) <= max(prompt) < limits.vocab:
            wrong = next(token for token in prompt if not 0 <= token < limits.vocab)
            return "invalid", f"token id {wrong} is outside the vocabulary of {limits.vocab}"
        if len(self._sequences) >= limits.max_sequences + limits.max_waiting:
            return "overloaded", f"{limits.max_waiting} requests are waiting already; try again later"
        return None

    def _step(self) -> None:
        schedule = self.scheduler.schedule()
        self._steps += 1
        plain = Schedule(schedule.decodes, [chunk for chunk in schedule.chunks if not chunk.scored])
        if plain.decodes or plain.chunks:
            affected = plain.decodes + [chunk.sequence for chunk in plain.chunks]
            try:
                batch, sampled = self._builder.build(plain)
                output = self._runner.run(batch)
            except Exception as fault:
                self._fault(affected, fault)
            else:
                for sequence in plain.decodes:
                    sequence.computed += 1
                for chunk in plain.chunks:
                    chunk.sequence.computed += chunk.count
                self._take(sampled, output)
        for chunk in schedule.chunks:
            if chunk.scored:
                self._score(chunk)

    def _take(self, sampled: list[Sequence], output: BatchOutput) -> None:
        """Append the sampled tokens and say so."""
        tokens, nans = output.token_ids.tolist(), output.nan.tolist()
        for at, (sequence, token) in enumerate(zip(sampled, tokens, strict=True)):
            if nans[at]:
                self._fail(sequence, "numerics", NAN.format(len(sequence.tokens)))
                continue
            sequence.tokens.append(token)
            top_n = sequence.sampling.top_logprobs
            if top_n < 0:
                self._outbox.append(Token(sequence.request_id, token))
            else:
                ids = output.top_ids[at, :top_n].tolist()
                logprobs = np.maximum(output.top_logprobs[at, :top_n], LOGPROB_FLOOR).tolist()
                chosen = max(float(output.logprobs[at]), LOGPROB_FLOOR)
                self._outbox.append(
                    Token(sequence.request_id, token, chosen, list(zip(ids, logprobs, strict=True)))
                )
            sampling = sequence.sampling
            if token in sampling.stop_token_ids and sequence.output_tokens >= sampling.min_tokens:
                self._finish(sequence, "stop")
            elif len(sequence.tokens) >= sequence.limit_tokens:
                self._finish(sequence, "length")

    def _score(self, chunk: Chunk) -> None:
        sequence = chunk.sequence
        targets = sequence.tokens[chunk.start + 1 : chunk.start + 1 + chunk.count]
        try:
            batch, _ = self._builder.build(Schedule([], [chunk]))
            batch.sample_rows = np.arange(chunk.count, dtype=np.int32)
            logits = self._runner.logits(batch)
        except Exception as fault:
            self._fault([sequence], fault)
            return
        if np.isnan(logits).any():
            self._fail(sequence, "numerics", NAN.format(chunk.start + 1))
            return
        logprobs, tops = score(logits, targets, sequence.sampling.prompt_logprobs)
        self._outbox.append(PromptScores(sequence.request_id, chunk.start + 1, logprobs, tops))
        sequence.computed += chunk.count
        sequence.scored = chunk.start + 1 + chunk.count
        if not sequence.unscored and sequence.sampling.max_tokens == 0:
            self._finish(sequence, "length")

    def _fault(self, sequences: list[Sequence], fault: Exception) -> None:
        log.error("a step failed", exc_info=fault)
        for sequence in sequences:
            self._fail(
                sequence,
                "internal",
                f"the engine failed in this step ({type(fault).__name__}); the log says more",
            )

    def _finish(self, sequence: Sequence, reason: FinishReason, waiting: bool = True) -> None:
        self._forget(sequence, waiting)
        self._outbox.append(
            Finished(sequence.request_id, reason, sequence.prompt_tokens, sequence.output_tokens)
        )

    def _fail(self, sequence: Sequence, kind: FailureKind, message: str) -> None:
        self._forget(sequence)
        self._outbox.append(Failed(sequence.request_id, kind, message))

    def _forget(self, sequence: Sequence, waiting: bool = True) -> None:
        del self._sequences[sequence.request_id]
        if waiting:
            self.scheduler.remove(sequence)
        if not self._sequences:
            self._status_due = 0.0  # report the empty engine at once

    def _flush(self) -> None:
        if self._outbox:
            self._channel.from_engine.send(self._outbox)
            self._outbox = []
