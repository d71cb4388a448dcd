"""Lays a schedule out as the runner's input. What stays the same while a sequence runs lies in tables by its row."""

from __future__ import annotations

import numpy as np

from fewbit.engine.runner import BatchInput
from fewbit.engine.scheduler import Chunk, Schedule
from fewbit.engine.sequence import Sequence
from fewbit.engine.uniform import uniforms


class BatchBuilder:
    """Arrays are allocated once, at capacity; a batch is views of them, valid until the next is built."""

    def __init__(self, max_batch_tokens: int, max_sequences: int, max_pages: int, page_tokens: int) -> None:
        tokens, rows = max_batch_tokens, max_sequences
        self._page_tokens = page_tokens
        self._iota = np.arange(max(tokens, rows) + 1, dtype=np.int32)
        self._token_ids = np.zeros(tokens, np.int32)
        self._positions = np.zeros(tokens, np.int32)
        self._slots = np.zeros(tokens, np.int32)
        self._q_start = np.zeros(rows + 1, np.int32)
        self._kv_len = np.zeros(rows, np.int32)
        # by row
        self._pages = np.zeros((rows, max_pages), np.int32)
        self._known_pages = [0] * rows  # how many entries of _pages are filled for the row's owner
        self._owner = [-1] * rows
        self._temperature = np.zeros(rows, np.float32)
        self._top_k = np.zeros(rows, np.int32)
        self._top_p = np.ones(rows, np.float32)
        self._min_p = np.zeros(rows, np.float32)
        self._top_n = np.zeros(rows, np.int32)
        self._stream = np.zeros(rows, np.uint64)
        # of the last batch
        self._last: list[Sequence] = []
        self._sequences: list[Sequence] = []
        self._sampled: list[Sequence] = []
        self._rows = np.zeros(0, np.int32)
        self._streams = np.zeros(0, np.uint64)
        self._constant: dict[str, np.ndarray] = {}

    def build(self, schedule: Schedule) -> tuple[BatchInput, list[Sequence]]:
        """The batch, and the sequences whose next token it samples, in the order of `sample_rows`."""
        decodes, chunks = schedule.decodes, schedule.chunks
        count = len(decodes)
        if chunks or decodes != self._last:
            self._select(decodes, chunks)
        sequences, rows = self._sequences, self._rows
        for sequence in decodes:
            if self._known_pages[sequence.row] != len(sequence.pages):
                self._add_pages(sequence)
        if count:
            positions = np.array([sequence.computed for sequence in decodes], np.int32)
            self._token_ids[:count] = [sequence.tokens[-1] for sequence in decodes]
            self._positions[:count] = positions
            page = positions // self._page_tokens
            self._slots[:count] = (
                self._pages[rows[:count], page] * self._page_tokens + positions % self._page_tokens
            )
            self._kv_len[:count] = positions + 1
        end = count
        for s, chunk in enumerate(chunks, count):
            end = self._lay(chunk, s, end)
        pages = max(len(sequence.pages) for sequence in sequences)
        counter = [sequence.output_tokens for sequence in self._sampled]
        batch = BatchInput(
            token_ids=self._token_ids[:end],
            positions=self._positions[:end],
            slots=self._slots[:end],
            q_start=self._q_start[: len(sequences) + 1],
            kv_len=self._kv_len[: len(sequences)],
            page_table=self._pages[rows, :pages],
            uniform=uniforms(self._streams, counter),
            **self._constant,
        )
        return batch, self._sampled

    def _select(self, decodes: list[Sequence], chunks: list[Chunk]) -> None:
        """Take up a new set of sequences. In a run of pure decode steps over one set, all of this stays as it is."""
        self._last = decodes if not chunks else []
        self._sequences = decodes + [chunk.sequence for chunk in chunks]
        for sequence in self._sequences:
            self._update(sequence)
        self._rows = np.array([sequence.row for sequence in self._sequences], np.int32)
        self._q_start[: len(decodes) + 1] = self._iota[: len(decodes) + 1]
        self._sampled = list(decodes)
        sample_rows = list(range(len(decodes)))
        end = len(decodes)
        for chunk in chunks:
            end += chunk.count
            if chunk.samples:
                self._sampled.append(chunk.sequence)
                sample_rows.append(end - 1)
        at = np.array([sequence.row for sequence in self._sampled], np.int32)
        self._streams = self._stream[at]
        self._constant = {
            "sample_rows": np.array(sample_rows, np.int32),
            "temperature": self._temperature[at],
            "top_k": self._top_k[at],
            "top_p": self._top_p[at],
            "min_p": self._min_p[at],
            "top_n": self._top_n[at],
        }

    def _lay(self, chunk: Chunk, s: int, begin: int) -> int:
        """Rows [begin, end) of sequence number s of the batch; returns end."""
        sequence, end = chunk.sequence, begin + chunk.count
        stop = chunk.start + chunk.count
        self._token_ids[begin:end] = sequence.tokens[chunk.start : stop]
        positions = np.arange(chunk.start, stop, dtype=np.int32)
        self._positions[begin:end] = positions
        page, offset = np.divmod(positions, self._page_tokens)
        self._slots[begin:end] = self._pages[sequence.row, page] * self._page_tokens + offset
        self._kv_len[s] = stop
        self._q_start[s + 1] = end
        return end

    def _update(self, sequence: Sequence) -> None:
        """Bring the tables of a sequence's row up to date: all when the row is new to it, else the pages it gained."""
        row = sequence.row
        if self._owner[row] != sequence.arrival or sequence.computed == 0:
            sampling = sequence.sampling
            self._owner[row] = sequence.arrival
            self._temperature[row] = sampling.temperature
            self._top_k[row] = sampling.top_k
            self._top_p[row] = sampling.top_p
            self._min_p[row] = sampling.min_p
            self._top_n[row] = max(sampling.top_logprobs, 0)
            self._stream[row] = sequence.stream
            self._known_pages[row] = 0
        self._add_pages(sequence)

    def _add_pages(self, sequence: Sequence) -> None:
        row, count = sequence.row, len(sequence.pages)
        known = self._known_pages[row]
        self._pages[row, known:count] = sequence.pages[known:]
        self._known_pages[row] = count
