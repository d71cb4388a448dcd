"""A runner without a model, for tests of everything around it.

It keeps token ids in a real page store and reads them back through the page table, so that a wrong page, slot or
position changes the answer: the next token is a hash of all tokens that the sequence sees.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from fewbit.engine.messages import Limits
from fewbit.engine.runner import PAGE_TOKENS, TOP_LOGPROBS, BatchInput, BatchOutput
from fewbit.engine.uniform import mix64

VOCAB = 256
EMPTY = -7  # never a token


class FakeRunner:
    def __init__(self, pages: int, vocab: int = VOCAB, step_s: float = 0.0) -> None:
        self.store = np.full(pages * PAGE_TOKENS, EMPTY, np.int64)
        self.vocab = vocab
        self.step_s = step_s
        self.steps = 0
        self.before: Callable[[BatchInput], None] = lambda batch: None  # a test's way to disturb a step
        self.script: Callable[[tuple[int, ...]], int] | None = None  # next token, in place of the hash

    def run(self, batch: BatchInput) -> BatchOutput:
        logits = self.logits(batch)
        count = len(batch.sample_rows)
        order = np.argsort(-logits, axis=1, kind="stable")
        picks = np.where(
            np.asarray(batch.temperature) > 0, (np.asarray(batch.uniform) * self.vocab).astype(np.int64), 0
        )
        ids = order[np.arange(count), picks]
        wide = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        top = order[:, :TOP_LOGPROBS]
        return BatchOutput(
            token_ids=ids.astype(np.int32),
            logprobs=wide[np.arange(count), ids].astype(np.float32),
            top_ids=top.astype(np.int32),
            top_logprobs=np.take_along_axis(wide, top, axis=1).astype(np.float32),
            nan=np.isnan(logits).any(axis=1).astype(np.int32),
        )

    def logits(self, batch: BatchInput) -> np.ndarray:
        self.steps += 1
        if self.step_s:
            time.sleep(self.step_s)
        self.before(batch)
        kv_len, q_start, table = (
            np.asarray(batch.kv_len),
            np.asarray(batch.q_start),
            np.asarray(batch.page_table),
        )
        assert len(batch.token_ids) == len(batch.positions) == len(batch.slots) == q_start[-1]
        assert (np.asarray(batch.slots) >= PAGE_TOKENS).all(), "a sequence writes to the scratch page"
        self.store[batch.slots] = batch.token_ids
        rows = []
        for row in np.asarray(batch.sample_rows).tolist():
            s = int(np.searchsorted(q_start, row, side="right")) - 1
            position = int(kv_len[s] - (q_start[s + 1] - q_start[s]) + row - q_start[s])
            assert batch.positions[row] == position
            at = np.arange(position + 1)
            seen = self.store[table[s][at // PAGE_TOKENS] * PAGE_TOKENS + at % PAGE_TOKENS]
            assert (seen != EMPTY).all(), "a token is missing in the cache"
            rows.append(self._row(tuple(seen.tolist())))
        return np.array(rows, np.float32).reshape(len(rows), self.vocab)

    def _row(self, seen: tuple[int, ...]) -> np.ndarray:
        state = next_token(seen, 1 << 62)
        row = np.random.Generator(np.random.SFC64(state)).random(self.vocab, dtype=np.float32) * 4
        row[self.script(seen) if self.script else state % self.vocab] = 9
        return row


def next_token(seen: tuple[int, ...], vocab: int = VOCAB) -> int:
    """The greedy token after `seen`."""
    state = len(seen)
    for token in seen:
        state = mix64(state ^ (token + 1))
    return state % vocab


def limits(
    context: int = 256,
    sequences: int = 4,
    waiting: int = 64,
    batch: int = 64,
    pages: int = 33,
    vocab: int = VOCAB,
) -> Limits:
    return Limits(context, sequences, waiting, batch, pages, PAGE_TOKENS, vocab)
