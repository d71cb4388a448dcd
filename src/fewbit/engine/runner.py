"""The runner: one call computes one step of a scheduled batch, whatever mix of prefill chunks and decode steps it is.

All arrays are int32 unless said. Sequence s of the batch owns the rows q_start[s] .. q_start[s+1]-1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from fewbit.kernels.backend import Backend, Runnable
from fewbit.kernels.ops.plan import Plan
from fewbit.kernels.ops.recorder import Ops
from fewbit.layers.inputs import Cache, StepInputs
from fewbit.models.interface import Model
from fewbit.spec.buffer import Buffer
from fewbit.spec.cell import Phase
from fewbit.spec.dtype import BF16, F32, I32, DType

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


class Runner:
    """Owns the cache and every buffer of a step; all have fixed addresses, so a plan once compiled serves every batch.

    A plan holds for a phase (decode: one row of every sequence) and for the interval of row counts in which its kernels stay
    the chosen ones; the one for a batch's T and L is recorded when first met. Page 0 is a scratch page that no sequence may own.
    """

    page_tokens = PAGE_TOKENS

    def __init__(
        self,
        model: Model,
        backend: Backend,
        *,
        max_rows: int,
        max_sequences: int,
        pages: int,
        max_pages_per_sequence: int,
        cache_dtype: DType = BF16,
    ) -> None:
        self.model, self.backend = model, backend
        self.max_rows, self.max_sequences, self.pages = max_rows, max_sequences, pages
        self.kv_bytes_per_page = sum(
            2 * PAGE_TOKENS * heads * dim * cache_dtype.bits // 8 for heads, dim in model.shape.kv_shapes
        )

        def i32(*shape: int) -> Buffer:
            return backend.empty(shape, I32)

        self._inputs = StepInputs(
            rows=i32(1),
            seqs=i32(1),
            sampled=i32(1),
            token_ids=i32(max_rows),
            positions=i32(max_rows),
            slots=i32(max_rows),
            q_start=i32(max_sequences + 1),
            kv_len=i32(max_sequences),
            page_table=i32(max_sequences, max_pages_per_sequence),
            sample_rows=i32(max_sequences),
        )
        self._sampling = {name: backend.empty((max_sequences,), dtype) for name, dtype in SAMPLING.items()}
        self._sampled = {
            name: backend.empty((max_sequences, TOP_LOGPROBS) if "top" in name else (max_sequences,), dtype)
            for name, dtype in SAMPLED.items()
        }
        self._caches = tuple(
            Cache(*(backend.empty((pages, PAGE_TOKENS * heads * dim), cache_dtype) for _ in range(2)))
            for heads, dim in model.shape.kv_shapes
        )
        self._working = model.working(backend, max_rows)
        self._gathered = backend.empty((max_sequences, model.shape.hidden_size), F32)
        self._logits = backend.empty((max_sequences, model.shape.vocab_size), F32)
        # views, made once: a step in Python is a dozen small copies
        self._in = {
            name: backend.array(getattr(self._inputs, name)) for name in StepInputs.__dataclass_fields__
        }
        self._in |= {name: backend.array(buffer) for name, buffer in self._sampling.items()}
        self._out = {name: backend.array(buffer) for name, buffer in self._sampled.items()}
        self._trunks: dict[Phase, list[Plan]] = {"prefill": [], "decode": []}
        self._heads: dict[bool, list[Plan]] = {True: [], False: []}
        self._compiled: dict[tuple[int, ...], Runnable] = {}

    def claim_thread(self) -> None:
        """To be called by the thread that runs the steps, once: it is pinned to its CPU."""
        self.backend.claim_thread()

    def run(self, batch: BatchInput) -> BatchOutput:
        trunk, count = self._trunk(self._fill(batch), len(batch.kv_len)), len(batch.sample_rows)
        if count == 0:
            self._runnable(trunk).run()
        else:
            for name in SAMPLING:
                self._in[name][:count] = getattr(batch, name)
            self._runnable(trunk, self._head(count, sample=True)).run()
        out = self._out
        return BatchOutput(
            out["ids"][:count].copy(),
            out["logprob"][:count].copy(),
            out["top_ids"][:count].copy(),
            out["top_logprobs"][:count].copy(),
            out["nan"][:count].copy(),
        )

    def logits(self, batch: BatchInput) -> np.ndarray:
        """f32 [L, vocab] of the rows in `sample_rows`, of which there may be more than max_sequences; nothing is sampled."""
        wanted = np.asarray(batch.sample_rows, np.int32)
        self._runnable(self._trunk(self._fill(batch, sampled=False), len(batch.kv_len))).run()
        result = np.empty((len(wanted), self.model.shape.vocab_size), np.float32)
        logits = self.backend.array(self._logits)
        for start in range(0, len(wanted), self.max_sequences):
            piece = wanted[start : start + self.max_sequences]
            self._in["sample_rows"][: len(piece)] = piece
            self._in["sampled"][0] = len(piece)
            self._runnable(self._head(len(piece), sample=False)).run()
            result[start : start + len(piece)] = logits[: len(piece)]
        return result

    def plans(self) -> list[Plan]:
        """What was recorded so far: the kernels that ran."""
        return [plan for plans in (*self._trunks.values(), *self._heads.values()) for plan in plans]

    def buffers(self) -> list[Buffer]:
        """Everything that the runner allocated, the cache and the model's working buffers included."""
        fields = [
            getattr(group, name)
            for group in (self._inputs, self._working)
            for name in group.__dataclass_fields__
        ]
        caches = [buffer for cache in self._caches for buffer in (cache.keys, cache.values)]
        return [
            *fields,
            *self._sampling.values(),
            *self._sampled.values(),
            *caches,
            self._gathered,
            self._logits,
        ]

    def _fill(self, batch: BatchInput, *, sampled: bool = True) -> int:
        """Copies the batch into the fixed buffers; returns its rows."""
        rows, seqs, count = len(batch.token_ids), len(batch.kv_len), len(batch.sample_rows)
        if (
            not 0 < rows <= self.max_rows
            or not 0 < seqs <= self.max_sequences
            or (sampled and count > self.max_sequences)
        ):
            raise ValueError(
                f"a batch of {rows} rows, {seqs} sequences and {count} sampled rows; the runner was made for "
                f"1..{self.max_rows} rows and 1..{self.max_sequences} sequences"
            )
        to = self._in
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
        if sampled:
            to["sampled"][0] = count
            to["sample_rows"][:count] = batch.sample_rows
        return rows

    def _trunk(self, rows: int, seqs: int) -> Plan:
        phase: Phase = "decode" if rows == seqs else "prefill"

        def record(ops: Ops) -> None:
            self.model.record_trunk(ops, self._inputs, self._caches, self._working)

        return self._plan(self._trunks[phase], rows, record, phase)

    def _head(self, count: int, *, sample: bool) -> Plan:
        def record(ops: Ops) -> None:
            self.model.record_head(ops, self._inputs, self._working, self._gathered, self._logits)
            if sample:
                ops.sample(logits=self._logits, rows=self._inputs.sampled, **self._sampling, **self._sampled)

        return self._plan(self._heads[sample], count, record)

    def _plan(self, plans: list[Plan], m: int, record: Callable[[Ops], None], phase: Phase = "any") -> Plan:
        for plan in plans:
            if plan.m_range[0] <= m <= plan.m_range[1]:
                return plan
        ops = Ops(self.backend.selector, m, phase)
        record(ops)
        plans.append(ops.plan())
        return plans[-1]

    def _runnable(self, *plans: Plan) -> Runnable:
        """All plans as one, so that a step is one call."""
        key = tuple(id(plan) for plan in plans)
        if key not in self._compiled:
            self._compiled[key] = self.backend.compile(
                Plan(tuple(step for plan in plans for step in plan.steps))
            )
        return self._compiled[key]
