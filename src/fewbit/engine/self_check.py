"""A short text through the loaded model before it serves: a layer with a wrong scale or kernel shows at the start, not in answers."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from fewbit.engine.runner import BatchInput, Runner
from fewbit.engine.step import PAGE_TOKENS
from fewbit.spec.refusal import FewbitError

TEXT = "The capital of France is Paris, and that of Italy is"
SAME = 1e-3  # of the range of the logits: more than any rounding of equal inputs, far less than two words differ by
TOKENS = 9  # all but the last in one step, the last in a step of its own: both phases


def check_model(
    runner: Runner, tokens: Sequence[int], most: int, ends: Collection[int], where: object
) -> None:
    """Raises FewbitError where the logits after each of `tokens` are no numbers, say nothing, or end every text.

    At most `most` tokens are taken, a context's length. `ends`: the tokens that end an answer. `where`: the checkpoint.
    Page 1 of the cache is written; whoever owns it later writes it anew.
    """
    vocab = runner.model.shape.vocab_size
    known = [token for token in tokens if token < vocab]
    ids = (known if len(known) > 1 else [i * vocab // TOKENS for i in range(TOKENS)])[: min(TOKENS, most)]
    cut = max(1, min(len(ids) - 1, runner.max_rows))
    rows = [runner.logits(_batch(ids, 0, cut))]
    if len(ids) > cut:
        rows.append(runner.logits(_batch(ids, cut, cut + 1)))
    found = _fault(np.concatenate(rows), ends)
    if found:
        raise FewbitError(
            f"{where}: the check of the loaded model failed: {found}, so a weight is damaged or a kernel is at fault; "
            "look with `fewbit inspect --verify`, or compare with --backend reference --allow-reference"
        )


def _fault(logits: np.ndarray, ends: Collection[int]) -> str:
    """What is wrong with logits [tokens, vocab] of a text; empty if nothing is."""
    count = len(logits)
    broken = np.flatnonzero(~np.isfinite(logits).all(axis=1))
    if len(broken):
        return f"the logits after {len(broken)} of {count} tokens hold NaN or infinity, those of token {broken[0]} first"
    flat = np.flatnonzero(logits.max(axis=1) == logits.min(axis=1))
    if len(flat):
        return f"all logits after token {flat[0]} are {logits[flat[0], 0]:g}, so no token is likelier than another"
    if count > 1 and np.abs(logits - logits[0]).max() <= SAME * np.ptp(logits[0]):
        return f"the logits are the same after each of {count} tokens, so the model does not read its input"
    likeliest = set(logits.argmax(axis=1).tolist())
    if count > 2 and len(likeliest) == 1 and likeliest <= set(ends):
        return f"after each of {count} tokens of a sentence the likeliest is {likeliest.pop()}, which ends the text"
    return ""


def _batch(ids: Sequence[int], start: int, stop: int) -> BatchInput:
    """Tokens start to stop of one sequence that owns page 1; logits of each."""
    at = np.arange(start, stop)
    many = len(at)
    return BatchInput(
        token_ids=ids[start:stop],
        positions=at,
        slots=PAGE_TOKENS + at,
        q_start=[0, many],
        kv_len=[stop],
        page_table=[[1]],
        sample_rows=np.arange(many),
        temperature=np.zeros(many),
        top_k=np.zeros(many),
        top_p=np.ones(many),
        min_p=np.zeros(many),
        uniform=np.full(many, 0.5),
        top_n=np.zeros(many),
    )
