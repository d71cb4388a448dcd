"""What the demo model must answer in a benchmark: the FP32 model's tokens, which near-ties may leave.

A greedy token may differ from the FP32 model's only where that model itself was near a tie: its best two logits less
than 0.5 apart. What comes after such a place is another text, and is not compared.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

GOLDEN = Path(__file__).resolve().parents[1] / "tests/data/golden"
NEAR_TIE = 0.5
PREFILL_TOKENS = 512
# after the 512 tokens of the prefill prompt, FP32 says token 314 with log-probability -1.106, 0.72 before the next
PREFILL_NEXT = 314


@dataclass(frozen=True, slots=True)
class Agreement:
    """`equal` leading tokens are the FP32 model's; `right` unless the first other one was no near-tie. As "right, 5/32"."""

    equal: int
    compared: int
    right: bool

    def __str__(self) -> str:
        return f"{'right' if self.right else 'WRONG'}, {self.equal}/{self.compared}"


def compare(tokens: Sequence[int], golden: Sequence[int], margins: Sequence[float]) -> Agreement:
    compared = min(len(tokens), len(golden))
    for i in range(compared):
        if tokens[i] != golden[i]:
            return Agreement(i, compared, margins[i] < NEAR_TIE)
    return Agreement(compared, compared, True)


def decode_case() -> tuple[list[int], list[int], list[float]]:
    """Prompt, FP32 tokens and margins of "The capital of France is"."""
    case = json.loads((GOLDEN / "golden_smollm2_fp32.json").read_text())[0]
    return case["prompt_ids"], case["fp32_ids"], case["fp32_margins"]


def prefill_prompt() -> list[int]:
    """The opening of a novel, 512 tokens."""
    return json.loads((GOLDEN / "ppl_smollm2.json").read_text())["ids"][:PREFILL_TOKENS]
