"""The fixed buffers that say what a step is about: the runner fills them, the plan reads them."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.spec.buffer import Buffer


@dataclass(frozen=True, slots=True)
class StepInputs:
    """i32. T rows, S sequences, L sampled rows are capacities; the live counts are in `rows`, `seqs`, `sampled`."""

    rows: Buffer  # [1]
    seqs: Buffer  # [1]
    sampled: Buffer  # [1]
    token_ids: Buffer  # [T]
    positions: Buffer  # [T]
    slots: Buffer  # [T] page * 32 + offset, -1 = skip
    q_start: Buffer  # [S + 1]
    kv_len: Buffer  # [S]
    page_table: Buffer  # [S, pages]
    sample_rows: Buffer  # [L]


@dataclass(frozen=True, slots=True)
class Cache:
    """Keys and values of one layer: [pages, 32 * kv_heads * head_dim] each."""

    keys: Buffer
    values: Buffer
