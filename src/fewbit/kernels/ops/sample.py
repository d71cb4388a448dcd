"""sample: one token per row of logits, and its log-probability.

Tokens are ranked by logit, highest first, ties by id. temperature 0 takes the first. Otherwise p = softmax(logits /
temperature), and the ranked list is cut, each time renormalized: to `top_k` tokens (0: all); to the shortest prefix whose
probability reaches `top_p`; to tokens with p >= min_p * p of the first. The token is the first whose cumulative probability
exceeds `uniform`. logprob is the log-softmax of the raw logits at that token, and bit-equal to its entry of top_logprobs,
which holds the first `top_n` of the ranking (fewer in a smaller vocabulary). A row with a NaN is flagged, and its token is 0.
"""

from __future__ import annotations

import numpy as np

from fewbit.kernels.ops.contract import parse

CONTRACT = parse(
    "sample",
    "logits:f32[rows_max,vocab] rows:i32[1] temperature:f32[rows_max] top_k:i32[rows_max] top_p:f32[rows_max] "
    "min_p:f32[rows_max] uniform:f32[rows_max] top_n:i32[rows_max] ids:i32[rows_max] logprob:f32[rows_max] "
    "top_ids:i32[rows_max,20] top_logprobs:f32[rows_max,20] nan:i32[rows_max]",
)


def choose(
    ranked: np.ndarray, temperature: float, top_k: int, top_p: float, min_p: float, uniform: float
) -> int:
    """Index into the ranked logits (f64, descending)."""
    if temperature == 0:
        return 0
    scaled = (ranked - ranked[0]) / temperature
    p = np.exp(scaled[: top_k or None])
    p /= p.sum()
    if top_p < 1:
        p = p[: int(np.searchsorted(np.cumsum(p), top_p)) + 1]
    p = p[p >= min_p * p[0]]
    return min(int(np.searchsorted(np.cumsum(p), uniform * p.sum(), side="right")), len(p) - 1)


def reference(
    logits: np.ndarray,
    rows: np.ndarray,
    temperature: np.ndarray,
    top_k: np.ndarray,
    top_p: np.ndarray,
    min_p: np.ndarray,
    uniform: np.ndarray,
    top_n: np.ndarray,
    ids: np.ndarray,
    logprob: np.ndarray,
    top_ids: np.ndarray,
    top_logprobs: np.ndarray,
    nan: np.ndarray,
) -> None:
    for r in range(int(rows[0])):
        row = logits[r].astype(np.float64)
        nan[r] = np.isnan(row).any()
        if nan[r]:
            ids[r], logprob[r] = 0, np.nan
            continue
        order = np.argsort(-row, kind="stable")
        logprobs = row[order] - (row.max() + np.log(np.exp(row - row.max()).sum()))
        at = choose(
            row[order],
            float(temperature[r]),
            int(top_k[r]),
            float(top_p[r]),
            float(min_p[r]),
            float(uniform[r]),
        )
        ids[r], logprob[r] = order[at], logprobs[at]
        n = min(int(top_n[r]), len(order))
        top_ids[r, :n], top_logprobs[r, :n] = order[:n], logprobs[:n]
