"""Which sequences compute how many tokens in the next step.

Continuous batching: every step serves all decoding sequences, oldest first, and fills the rest of the token budget with
prompt chunks. First come, first served: no sequence overtakes an older one, so all running sequences are older than all
waiting ones. A sequence is admitted when pages for all its tokens are free. When decoding needs a page and none is left,
the youngest sequence gives up its pages and waits again, at the front; later its tokens are computed anew ("preemption by
recompute"). The oldest is thus never preempted for long, and everything ends.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from fewbit.engine.kv_pool import KvPool
from fewbit.engine.sequence import NO_ROW, Sequence, pages_for


@dataclass(frozen=True, slots=True)
class Chunk:
    """Tokens [start, start + count) of a sequence in prefill. `scored`: the logprobs of the tokens after each are wanted."""

    sequence: Sequence
    start: int
    count: int
    scored: bool = False

    @property
    def samples(self) -> bool:
        """The chunk ends the prefill, so its last row chooses a token."""
        return self.start + self.count == len(self.sequence.tokens)


@dataclass(frozen=True, slots=True)
class Schedule:
    decodes: list[Sequence]
    chunks: list[Chunk]


class Scheduler:
    def __init__(
        self, pool: KvPool, page_tokens: int, max_sequences: int, max_batch_tokens: int, max_score_tokens: int
    ) -> None:
        if max_batch_tokens < max_sequences:
            raise ValueError(
                f"a step of {max_batch_tokens} tokens can't hold {max_sequences} decoding sequences"
            )
        self.pool = pool
        self.page_tokens = page_tokens
        self.max_batch_tokens = max_batch_tokens
        self.max_score_tokens = max_score_tokens
        self.running: list[Sequence] = []  # oldest first
        self.waiting: deque[Sequence] = deque()  # oldest first, all younger than the running ones
        self.preemptions = 0
        self._rows = list(range(max_sequences - 1, -1, -1))

    @property
    def idle(self) -> bool:
        return not self.running and not self.waiting

    def add(self, sequence: Sequence) -> None:
        self.waiting.append(sequence)

    def schedule(self) -> Schedule:
        preempted = self.preemptions
        decodes = self._decodes()
        budget = self.max_batch_tokens - len(decodes)
        chunks: list[Chunk] = []
        for sequence in self.running:
            if sequence.pending > 1 and budget > 0:
                chunks.append(self._chunk(sequence, budget))
                budget -= chunks[-1].count
        if preempted == self.preemptions:
            while self.waiting and budget > 0 and self._admit(self.waiting[0]):
                chunks.append(self._chunk(self.waiting.popleft(), budget))
                budget -= chunks[-1].count
        return Schedule(decodes, chunks)

    def remove(self, sequence: Sequence) -> None:
        """Forget a sequence, wherever it is, and free its pages."""
        if sequence.row == NO_ROW:
            self.waiting.remove(sequence)
        else:
            self.running.remove(sequence)
            self._release(sequence)

    def restart(self) -> None:
        """Keys and values have become worthless: every running sequence gives up its pages and waits, in the same order."""
        while self.running:
            sequence = self.running.pop()
            self._release(sequence)
            self.waiting.appendleft(sequence)

    def check(self) -> None:
        """Assert the invariants of pages, rows and order."""
        self.pool.check({sequence.arrival: sequence.pages for sequence in self.running})
        rows = [sequence.row for sequence in self.running]
        assert len(set(rows + self._rows)) == len(rows) + len(self._rows), "a row is used twice"
        order = [sequence.arrival for sequence in [*self.running, *self.waiting]]
        assert order == sorted(order), "a younger sequence overtook an older one"
        for sequence in self.running:
            assert sequence.computed <= len(sequence.pages) * self.page_tokens, "tokens without a page"
        for sequence in self.waiting:
            assert not sequence.pages and sequence.row == NO_ROW and sequence.computed == 0

    def _decodes(self) -> list[Sequence]:
        decodes: list[Sequence] = []
        at = 0
        while at < len(self.running):  # preemption shortens the list behind `at`
            sequence = self.running[at]
            if sequence.pending == 1:
                if not self._grow(sequence):
                    break
                decodes.append(sequence)
            at += 1
        return decodes

    def _grow(self, sequence: Sequence) -> bool:
        """Give a decoding sequence the page of its newest token; False if it had to give up its own pages."""
        if len(sequence.tokens) <= len(sequence.pages) * self.page_tokens:
            return True
        while (pages := self.pool.allocate(sequence.arrival, 1)) is None:
            victim = self.running.pop()
            self._release(victim)
            self.waiting.appendleft(victim)
            self.preemptions += 1
            if victim is sequence:
                return False
        sequence.pages += pages
        return True

    def _admit(self, sequence: Sequence) -> bool:
        if not self._rows:
            return False
        pages = self.pool.allocate(sequence.arrival, pages_for(len(sequence.tokens), self.page_tokens))
        if pages is None:
            return False
        sequence.pages = pages
        sequence.row = self._rows.pop()
        self.running.append(sequence)
        return True

    def _release(self, sequence: Sequence) -> None:
        self.pool.release(sequence.arrival, sequence.pages)
        self._rows.append(sequence.row)
        sequence.pages, sequence.row, sequence.computed = [], NO_ROW, 0

    def _chunk(self, sequence: Sequence, budget: int) -> Chunk:
        start = sequence.computed
        count = min(sequence.pending, budget)
        if sequence.unscored:
            known = (
                sequence.scored - 1 - start
            )  # rows before this end scores that were sent before a preemption
            if known > 0:
                return Chunk(sequence, start, min(count, known))
            return Chunk(sequence, start, min(count, sequence.unscored, self.max_score_tokens), scored=True)
        return Chunk(sequence, start, count)
