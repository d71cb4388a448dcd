"""What a step is about and what it gave: the messages of the runner, and the fixed buffers that they are copied through.

All arrays are int32 unless said. Sequence s of the batch owns the rows q_start[s] .. q_start[s+1]-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fewbit.kernels.backend import Backend
from fewbit.layers.inputs import StepInputs
from fewbit.spec.buffer import Buffer
from fewbit.spec.dtype import F32, I32, DType

PAGE_TOKENS = 32
TOP_LOGPROBS = 20


@dataclass(slots=True)
class BatchInput:
    """T rows of S sequences; L of the rows get logits and a sampled token. Lists or arrays."""

    token_ids: Sequence[int] | np.ndarray  # [T]
    positions: Sequence[int] | np.ndarray  # [T]
    slots: Sequence[int] | np.ndarray  # [T] page * 32 + offset; -1 = store nothing
    q_start: Sequence[int] | np.ndarray  # [S + 1]
    kv_len: Sequence[int] | np.ndarray  # [S] tokens visible, those of this step included
    page_table: Sequence[Sequence[int]] | np.ndarray  # [S][pages of the sequence], rows may differ in length
    sample_rows: Sequence[int] | np.ndarray  # [L] row indexes
    temperature: Sequence[float] | np.ndarray  # [L] 0 = greedy
    top_k: Sequence[int] | np.ndarray  # [L] 0 = off
    top_p: Sequence[float] | np.ndarray  # [L] 1 = off
    min_p: Sequence[float] | np.ndarray  # [L] 0 = off
    uniform: Sequence[float] | np.ndarray  # [L] in [0, 1)
    top_n: Sequence[int] | np.ndarray  # [L] 0..20 entries wanted in top_ids


@dataclass(slots=True)
class BatchOutput:
    """Copies: they stay valid after the next run."""

    token_ids: np.ndarray  # [L]
    logprobs: np.ndarray  # [L] f32, log-softmax of the raw logits at the token
    top_ids: np.ndarray  # [L, 20]; the first top_n[l] columns are filled
    top_logprobs: np.ndarray  # [L, 20] f32
    nan: np.ndarray  # [L] 1 when the row's logits hold a NaN


SAMPLING: dict[str, DType] = {
    "temperature": F32,
    "top_k": I32,
    "top_p": F32,
    "min_p": F32,
    "uniform": F32,
    "top_n": I32,
}
SAMPLED: dict[str, DType] = {"ids": I32, "logprob": F32, "top_ids": I32, "top_logprobs": F32, "nan": I32}


@dataclass(frozen=True, slots=True)
class StepLimits:
    """What the buffers were made for; pages include the scratch page."""

    rows: int
    sequences: int
    pages: int
    pages_per_sequence: int
    vocab: int


class StepBuffers:
    """Buffers with fixed addresses and numpy views of them, made once: a step in Python is a dozen small copies.

    Ids, slots, pages and row indexes become addresses in the kernels, so each is checked against its bound here.
    """

    def __init__(self, backend: Backend, limits: StepLimits) -> None:
        self.limits = limits
        rows, sequences = limits.rows, limits.sequences

        def i32(*shape: int) -> Buffer:
            return backend.empty(shape, I32)

        self.inputs = StepInputs(
            rows=i32(1),
            seqs=i32(1),
            sampled=i32(1),
            token_ids=i32(rows),
            positions=i32(rows),
            slots=i32(rows),
            q_start=i32(sequences + 1),
            kv_len=i32(sequences),
            page_table=i32(sequences, limits.pages_per_sequence),
            sample_rows=i32(sequences),
        )
        self.sampling = {name: backend.empty((sequences,), dtype) for name, dtype in SAMPLING.items()}
        self.sampled = {
            name: backend.empty((sequences, TOP_LOGPROBS) if "top" in name else (sequences,), dtype)
            for name, dtype in SAMPLED.items()
        }
        self._in = {
            name: backend.array(getattr(self.inputs, name)) for name in StepInputs.__dataclass_fields__
        }
        self._in |= {name: backend.array(buffer) for name, buffer in self.sampling.items()}
        self._out = {name: backend.array(buffer) for name, buffer in self.sampled.items()}

    def fill(self, batch: BatchInput) -> None:
        """Copies what the trunk reads; ValueError for a batch beyond the limits."""
        limits, to = self.limits, self._in
        rows, seqs = len(batch.token_ids), len(batch.kv_len)
        if not 0 < rows <= limits.rows or not 0 < seqs <= limits.sequences:
            raise ValueError(
                f"a batch of {rows} rows and {seqs} sequences; the runner was made for 1..{limits.rows} rows and "
                f"1..{limits.sequences} sequences"
            )
        to["rows"][0], to["seqs"][0] = rows, seqs
        to["token_ids"][:rows] = batch.token_ids
        to["positions"][:rows] = batch.positions
        to["slots"][:rows] = batch.slots
        to["q_start"][: seqs + 1] = batch.q_start
        to["kv_len"][:seqs] = batch.kv_len
        if isinstance(batch.page_table, np.ndarray):
            to["page_table"][:seqs, : batch.page_table.shape[1]] = batch.page_table
        else:
            for index, pages in enumerate(batch.page_table):
                to["page_table"][index, : len(pages)] = pages
        _check("token_ids", to["token_ids"][:rows], limits.vocab)
        _check("slots", to["slots"][:rows] + 1, limits.pages * PAGE_TOKENS + 1)  # -1 stores nothing
        _check("page_table", to["page_table"][:seqs], limits.pages)
        _check("kv_len", to["kv_len"][:seqs], limits.pages_per_sequence * PAGE_TOKENS + 1)
        if to["q_start"][0] != 0 or to["q_start"][seqs] != rows:
            raise ValueError(
                f"q_start runs from {batch.q_start[0]} to {batch.q_start[-1]}, expected 0 to {rows}"
            )

    def select(self, sample_rows: Sequence[int] | np.ndarray, rows: int) -> None:
        """The rows whose logits are wanted, of `rows` in the step."""
        count = len(sample_rows)
        if count > self.limits.sequences:
            raise ValueError(f"{count} sampled rows; the runner was made for {self.limits.sequences}")
        self._in["sampled"][0] = count
        self._in["sample_rows"][:count] = sample_rows
        _check("sample_rows", self._in["sample_rows"][:count], rows)

    def fill_sampling(self, batch: BatchInput, count: int) -> None:
        for name in SAMPLING:
            self._in[name][:count] = getattr(batch, name)

    def output(self, count: int) -> BatchOutput:
        out = self._out
        return BatchOutput(
            out["ids"][:count].copy(),
            out["logprob"][:count].copy(),
            out["top_ids"][:count].copy(),
            out["top_logprobs"][:count].copy(),
            out["nan"][:count].copy(),
        )

    def all(self) -> list[Buffer]:
        inputs = [getattr(self.inputs, name) for name in StepInputs.__dataclass_fields__]
        return [*inputs, *self.sampling.values(), *self.sampled.values()]


def _check(name: str, values: np.ndarray, bound: int) -> None:
    """All in [0, bound). As unsigned numbers, negative ones lie beyond every bound, so one maximum tells."""
    if values.size and values.view(np.uint32).max() >= bound:
        wrong = values[(values < 0) | (values >= bound)].flat[0]
        raise ValueError(f"{name} holds {wrong}, expected 0..{bound - 1}")
