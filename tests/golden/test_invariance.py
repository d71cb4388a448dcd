"""What else is in the batch, and how a prefill is cut, changes no bit of a sequence's logits on the f32 rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.models.tiny import Driver

pytestmark = pytest.mark.demo


@pytest.fixture
def texts(read_golden: Any) -> list[list[int]]:
    ids = read_golden("ppl_smollm2.json")["ids"]
    return [ids[:77], ids[77:140], ids[140:141], ids[141:200]]


def bitwise(demo: Driver) -> bool:
    """Whether every kernel of the plans that ran declares that it gives the same bits at any M."""
    rows = {step.row for plan in demo.runner.plans() for step in plan.steps}
    return all(row.exactness == "bitwise" for row in rows if row.op in ("linear", "attention"))


def test_alone_and_together(demo: Driver, texts: list[list[int]]) -> None:
    together = demo.logits(dict(enumerate(texts)))
    demo.lengths.clear()
    alone = [demo.logits({sequence: text})[0] for sequence, text in enumerate(texts)]
    for a, b in zip(alone, together, strict=True):
        compare(demo, a, b)


@pytest.mark.parametrize("cut", [1, 31, 32, 50])
def test_whole_and_in_chunks(demo: Driver, texts: list[list[int]], cut: int) -> None:
    (whole,) = demo.logits({0: texts[0]})
    head, tail = texts[0][:cut], texts[0][cut:]
    (first,) = demo.logits({1: head})
    # the rest beside two other sequences, the last three tokens one by one
    (rest, *_) = demo.logits({1: tail[:-3], 2: texts[1], 3: texts[2]})
    steps = [demo.logits({2: [5], 1: [token]})[1] for token in tail[-3:]]
    compare(demo, whole, np.concatenate([first, rest, *steps]))


def compare(demo: Driver, a: np.ndarray, b: np.ndarray) -> None:
    if bitwise(demo):
        np.testing.assert_array_equal(a.view(np.uint32), b.view(np.uint32))
    else:
        np.testing.assert_allclose(a, b, atol=0.1)
