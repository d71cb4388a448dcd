"""Logprobs of a prompt's own tokens, from logits of every row, a bounded number of rows at a time."""

from __future__ import annotations

import numpy as np

from fewbit.engine.messages import TopLogprobs

LOGPROB_FLOOR = -9999.0  # stands for -inf, which JSON can't say


def score(logits: np.ndarray, targets: list[int], top_n: int) -> tuple[list[float], list[TopLogprobs]]:
    """Logprob of targets[i] under logits f32[i], and the `top_n` likeliest tokens of the row (ties by id)."""
    rows = np.arange(len(targets))
    wide = logits.astype(np.float64)
    peak = wide.max(axis=1, keepdims=True)
    wide -= peak + np.log(np.exp(wide - peak).sum(axis=1, keepdims=True))
    logprobs = np.maximum(wide.astype(np.float32), np.float32(LOGPROB_FLOOR))
    tops: list[TopLogprobs] = [[] for _ in targets]
    if top_n:
        # a cut at the n-th largest keeps all ties; the stable sort then prefers the lowest id
        cut = np.partition(logprobs, -top_n, axis=1)[:, -top_n]
        for row in rows:
            ids = np.flatnonzero(logprobs[row] >= cut[row])
            ids = ids[np.argsort(-logprobs[row, ids], kind="stable")][:top_n]
            tops[row] = list(zip(ids.tolist(), logprobs[row, ids].tolist(), strict=True))
    return logprobs[rows, targets].tolist(), tops
