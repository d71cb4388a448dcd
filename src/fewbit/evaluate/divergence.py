"""What a row of logits says about the token that came, alone and beside a reference's row. Sums are kept, rows never.

nll          -log p(token)
kl           sum_v p_ref(v) * (log p_ref(v) - log p(v)), in nats
top-1        whether both rows' largest logits are at the same token
|dlogp|      |log p(token) - log p_ref(token)|
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from fewbit.spec.refusal import FewbitError


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Of each row, in f64."""
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    wide -= np.log(np.exp(wide).sum(axis=1, keepdims=True))
    return wide


def perplexity(nll_mean: float) -> float:
    return math.exp(nll_mean) if nll_mean < 700 else math.inf


@dataclass(slots=True)
class Tally:
    """Sums over the tokens scored so far; the divergences stay zero while no reference is given."""

    tokens: int = 0
    nll: float = 0.0
    compared: int = 0
    reference_nll: float = 0.0
    kl: float = 0.0
    kl_max: float = 0.0
    agreeing: int = 0
    dlogp: float = 0.0
    dlogp_max: float = 0.0

    def add(self, logprobs: np.ndarray, targets: np.ndarray, reference: np.ndarray | None = None) -> None:
        """Rows of log-probabilities [R, vocabulary] and the token that came after each."""
        rows = np.arange(len(targets))
        chosen = logprobs[rows, targets]
        if np.isnan(chosen).any():
            raise FewbitError(
                f"the model gives NaN after {self.tokens + int(np.isnan(chosen).argmax()) + 1} scored tokens; "
                "its weights or a kernel are broken, run `fewbit inspect` on it"
            )
        self.tokens += len(targets)
        self.nll -= float(chosen.sum())
        if reference is None:
            return
        if reference.shape != logprobs.shape:
            raise FewbitError(
                f"the reference has a vocabulary of {reference.shape[1]} tokens, the model of {logprobs.shape[1]}; "
                "they cannot be compared"
            )
        probability = np.exp(reference)
        # a token that the reference rules out adds nothing
        gap = np.where(probability > 0, reference - logprobs, 0.0)
        kl = np.maximum((probability * gap).sum(axis=1), 0.0)
        difference = np.abs(chosen - reference[rows, targets])
        self.compared += len(targets)
        self.reference_nll -= float(reference[rows, targets].sum())
        self.kl += float(kl.sum())
        self.kl_max = max(self.kl_max, float(kl.max()))
        self.agreeing += int((logprobs.argmax(axis=1) == reference.argmax(axis=1)).sum())
        self.dlogp += float(difference.sum())
        self.dlogp_max = max(self.dlogp_max, float(difference.max()))

    def figures(self) -> dict[str, float]:
        """By name, as --json prints them."""
        found: dict[str, float] = {
            "tokens": self.tokens,
            "nll_mean": self.nll / self.tokens,
            "perplexity": perplexity(self.nll / self.tokens),
        }
        if self.compared:
            found |= {
                "reference_perplexity": perplexity(self.reference_nll / self.compared),
                "kl_mean": self.kl / self.compared,
                "kl_max": self.kl_max,
                "top1_agreement": self.agreeing / self.compared,
                "dlogp_mean": self.dlogp / self.compared,
                "dlogp_max": self.dlogp_max,
            }
        return found
