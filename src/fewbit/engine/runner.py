"""The runner: one call computes one step of a scheduled batch, whatever mix of prefill chunks and decode steps it is."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fewbit.engine.step import PAGE_TOKENS, TOP_LOGPROBS, BatchInput, BatchOutput, StepBuffers, StepLimits
from fewbit.kernels.backend import Backend, Runnable
from fewbit.kernels.ops.plan import Plan
from fewbit.kernels.ops.recorder import Ops
from fewbit.layers.inputs import Cache
from fewbit.models.interface import Model
from fewbit.spec.buffer import Buffer
from fewbit.spec.cell import Phase
from fewbit.spec.dtype import BF16, F32, DType

__all__ = ["PAGE_TOKENS", "TOP_LOGPROBS", "BatchInput", "BatchOutput", "Runner"]


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

        limits = StepLimits(max_rows, max_sequences, pages, max_pages_per_sequence, model.shape.vocab_size)
        self._step = StepBuffers(backend, limits)
        self._caches = tuple(
            Cache(*(backend.empty((pages, PAGE_TOKENS * heads * dim), cache_dtype) for _ in range(2)))
            for heads, dim in model.shape.kv_shapes
        )
        self._working = model.working(backend, max_rows)
        self._gathered = backend.empty((max_sequences, model.shape.hidden_size), F32)
        self._logits = backend.empty((max_sequences, model.shape.vocab_size), F32)
        self._trunks: dict[Phase, list[Plan]] = {"prefill": [], "decode": []}
        self._heads: dict[bool, list[Plan]] = {True: [], False: []}
        self._compiled: dict[tuple[int, ...], Runnable] = {}

    def claim_thread(self) -> None:
        """To be called by the thread that runs the steps, once: it is pinned to its CPU."""
        self.backend.claim_thread()

    def run(self, batch: BatchInput) -> BatchOutput:
        rows, count = len(batch.token_ids), len(batch.sample_rows)
        self._step.fill(batch)
        self._step.select(batch.sample_rows, rows)
        trunk = self._trunk(rows, len(batch.kv_len))
        if count == 0:
            self._runnable(trunk).run()
        else:
            self._step.fill_sampling(batch, count)
            self._runnable(trunk, self._head(count, sample=True)).run()
        return self._step.output(count)

    def logits(self, batch: BatchInput) -> np.ndarray:
        """f32 [L, vocab] of the rows in `sample_rows`, of which there may be more than max_sequences; nothing is sampled."""
        rows, wanted = len(batch.token_ids), batch.sample_rows
        self._step.fill(batch)
        self._runnable(self._trunk(rows, len(batch.kv_len))).run()
        result = np.empty((len(wanted), self.model.shape.vocab_size), np.float32)
        logits = self.backend.array(self._logits)
        for start in range(0, len(wanted), self.max_sequences):
            piece = wanted[start : start + self.max_sequences]
            self._step.select(piece, rows)
            self._runnable(self._head(len(piece), sample=False)).run()
            result[start : start + len(piece)] = logits[: len(piece)]
        return result

    def plans(self) -> list[Plan]:
        """What was recorded so far: the kernels that ran."""
        return [plan for plans in (*self._trunks.values(), *self._heads.values()) for plan in plans]

    def buffers(self) -> list[Buffer]:
        """Everything that the runner allocated, the cache and the model's working buffers included."""
        working = [getattr(self._working, name) for name in self._working.__dataclass_fields__]
        caches = [buffer for cache in self._caches for buffer in (cache.keys, cache.values)]
        return [*self._step.all(), *working, *caches, self._gathered, self._logits]

    def _trunk(self, rows: int, seqs: int) -> Plan:
        phase: Phase = "decode" if rows == seqs else "prefill"

        def record(ops: Ops) -> None:
            self.model.record_trunk(ops, self._step.inputs, self._caches, self._working)

        return self._plan(self._trunks[phase], rows, record, phase)

    def _head(self, count: int, *, sample: bool) -> Plan:
        step = self._step

        def record(ops: Ops) -> None:
            self.model.record_head(ops, step.inputs, self._working, self._gathered, self._logits)
            if sample:
                ops.sample(logits=self._logits, rows=step.inputs.sampled, **step.sampling, **step.sampled)

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
