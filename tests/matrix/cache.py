"""Cases of the ops over the paged cache: kv_store and attention."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from fewbit.kernels.ops.kv_page import PAGE_TOKENS, split_keys
from fewbit.schemes.arrays import round_bf16, widen_bf16
from fewbit.spec.cell import KernelRow
from tests.matrix.problem import CANARY, Problem
from tests.matrix.small_ops import U, floats, live

PAGES = 24
LARGEST = np.float32(4)  # of queries, keys and values


def kv_store(row: KernelRow) -> Iterator[Problem]:
    """Rounded to nearest even into its slot, nothing else touched: exact."""
    rng = np.random.default_rng(11)
    for kv_heads, head_dim in ((1, 16), (2, 32), (3, 64), (1, 80), (2, 128)):
        for m in (1, 7, 40):
            width = kv_heads * head_dim
            slots = rng.permutation(PAGES * PAGE_TOKENS)[: m + 1].astype(np.int32)
            slots[:: max(m // 3, 2)] = -1  # skipped rows
            cache = rng.integers(0, 1 << 15, (PAGES, PAGE_TOKENS * width)).astype(np.uint16)
            k, v = floats(rng, m + 1, width), floats(rng, m + 1, width)
            k[0, :3] = [np.nan, np.inf, 1e-40]
            args = {
                "k": k,
                "v": v,
                "k_cache": cache,
                "v_cache": cache.copy(),
                "slots": slots,
                "rows": live(m),
            }
            args |= {"kv_heads": kv_heads, "head_dim": head_dim}
            case = f"m={m} heads={kv_heads} head_dim={head_dim}"
            yield Problem(case, "kv_store", args, {"k_cache": 1.0, "v_cache": 1.0})


# (query rows, tokens visible) of each sequence: decode steps, whole and partial prefill, at and around page and chunk edges
BATCHES = {
    "one token": [(1, 1)],
    "decode": [(1, 31), (1, 32), (1, 33), (1, 255), (1, 256), (1, 257)],
    "prefill": [(33, 33), (1, 5)],
    "chunked prefill": [(17, 300), (1, 64), (16, 48)],
}
SHAPES = ((1, 1, 16, 0), (4, 2, 64, 0), (9, 3, 32, 0), (6, 1, 80, 40), (8, 2, 128, 0), (2, 2, 256, 7))


def attention(row: KernelRow) -> Iterator[Problem]:
    """A score is a sum of head_dim products; its roundings add up to a deviation of R sqrt(head_dim) u, where R^2 is the largest
    sum of squared products. bf16 rows round both factors first: sqrt(2/3) 2^-9 R more. An error e of the scores moves the
    weights by a factor of at most 1 + 2e, so the result by 2e max|v|; four deviations are allowed. The sum over the tokens adds
    (tokens + 16) u, and rounding the weights to bf16 2^-9.
    """
    rng = np.random.default_rng(12)
    step = 2.0**-9 if row.activation == "bf16" else 0.0
    for name, batch in BATCHES.items():
        for heads, kv_heads, head_dim, window in SHAPES:
            if not all(c.admits(head_dim) for c in row.constraints if c.axis == "head_dim"):
                continue
            args, tokens = _batch(rng, batch, heads, kv_heads, head_dim)
            args |= {"scale": head_dim**-0.5, "window": window}
            deviation = _largest_products(args) * (head_dim**0.5 * U + (2 / 3) ** 0.5 * step)
            allowed = 2 * 4 * deviation + (tokens + 16) * U + step
            case = f"{name} heads={heads}/{kv_heads} head_dim={head_dim} window={window}"
            yield Problem(case, "attention", args, {"out": LARGEST}, allowed=allowed)


def _largest_products(args: dict[str, Any]) -> float:
    """Root of the largest sum of squared products of a score: max |q^2 . k^2|^(1/2) scale over all queries and cached keys."""
    kv_heads, head_dim = args["kv_heads"], args["head_dim"]
    keys = widen_bf16(np.ascontiguousarray(split_keys(args["k_cache"], kv_heads, head_dim))).reshape(
        -1, head_dim
    )
    queries = args["q"].reshape(-1, head_dim)
    return float(
        np.sqrt((queries.astype(np.float64) ** 2 @ keys.T.astype(np.float64) ** 2).max()) * args["scale"]
    )


def _batch(
    rng: np.random.Generator, batch: list[tuple[int, int]], heads: int, kv_heads: int, head_dim: int
) -> tuple[dict[str, Any], int]:
    rows, longest = sum(r for r, _ in batch), max(t for _, t in batch)
    per_sequence = -(-longest // PAGE_TOKENS)
    pages = 1 + per_sequence * len(batch)
    table = np.zeros((len(batch) + 1, per_sequence), np.int32)
    free = rng.permutation(np.arange(1, pages)).astype(np.int32)
    for i, (_, tokens) in enumerate(batch):
        used = -(-tokens // PAGE_TOKENS)
        table[i, :used], free = free[:used], free[used:]
    starts = np.concatenate([[0], np.cumsum([r for r, _ in batch]), [rows]]).astype(np.int32)
    assert all(b >= a for a, b in pairwise(starts))
    width = PAGE_TOKENS * kv_heads * head_dim
    q = floats(rng, rows + 1, heads * head_dim).clip(-LARGEST, LARGEST)
    keys, values = (round_bf16(floats(rng, pages, width).clip(-LARGEST, LARGEST)) for _ in range(2))
    args: dict[str, Any] = {
        "q": q,
        "k_cache": keys,
        "v_cache": values,
        "page_table": table,
        "seqs": live(len(batch)),
    }
    args |= {"q_start": starts, "kv_len": np.array([*(t for _, t in batch), 0], np.int32)}
    args |= {"out": np.full_like(q, CANARY), "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    args["max_kv_len"] = per_sequence * PAGE_TOKENS
    return args, longest
