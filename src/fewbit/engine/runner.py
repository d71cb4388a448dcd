"""The runner: one call computes one step of a scheduled batch, whatever mix of prefill chunks and decode steps it is.

All arrays are int32 unless said. Sequence s of the batch owns the rows q_start[s] .. q_start[s+1]-1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

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
