"""attention: causal attention of the step's queries over the paged cache; prefill chunks and decode steps in one call.

Row i of sequence s (rows q_start[s] .. q_start[s+1]-1) has position p = kv_len[s] - (its row count) + i and sees the tokens
max(0, p - window + 1) .. p (window 0: from 0). out = softmax(q . K * scale) . V, f32. Query head h reads key/value head
h / (heads / kv_heads).
"""

from __future__ import annotations

import numpy as np

from fewbit.kernels.ops import kv_page
from fewbit.kernels.ops.contract import parse
from fewbit.schemes.arrays import widen_bf16

CONTRACT = parse(
    "attention",
    "q:f32[rows_max,heads*head_dim] k_cache:cache[pages,32*kv_heads*head_dim] v_cache:cache[pages,32*kv_heads*head_dim] "
    "page_table:i32[max_seqs,max_pages] seqs:i32[1] q_start:i32[max_seqs+1] kv_len:i32[max_seqs] "
    "out:f32[rows_max,heads*head_dim] heads:int kv_heads:int head_dim:int max_kv_len:int scale:float window:int",
)


def reference(
    q: np.ndarray,
    k_cache: np.ndarray,
    v_cache: np.ndarray,
    page_table: np.ndarray,
    seqs: np.ndarray,
    q_start: np.ndarray,
    kv_len: np.ndarray,
    out: np.ndarray,
    heads: int,
    kv_heads: int,
    head_dim: int,
    max_kv_len: int,
    scale: float,
    window: int,
) -> None:
    keys, values = (
        kv_page.split_keys(k_cache, kv_heads, head_dim),
        kv_page.split_values(v_cache, kv_heads, head_dim),
    )
    for s in range(int(seqs[0])):
        start, stop, tokens = int(q_start[s]), int(q_start[s + 1]), int(kv_len[s])
        k, v = kv_page.load(keys, values, page_table[s], tokens)
        if k.dtype == np.uint16:
            k, v = widen_bf16(k), widen_bf16(v)
        queries = q[start:stop].reshape(stop - start, kv_heads, heads // kv_heads, head_dim)
        position = tokens - (stop - start) + np.arange(stop - start)[:, None]
        token = np.arange(tokens)
        seen = (token <= position) & (token > position - (window or tokens + 1))
        scores = np.einsum("rgjd,gtd->gjrt", queries, k, optimize=True) * np.float32(scale)
        scores = np.where(seen, scores, -np.inf)
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        weights /= weights.sum(axis=-1, keepdims=True)
        result = np.einsum("gjrt,gtd->rgjd", weights, v, optimize=True)
        out[start:stop] = result.reshape(stop - start, heads * head_dim)
