import math

import numpy as np
import pytest

from fewbit.evaluate.divergence import Tally, log_softmax
from fewbit.spec.refusal import FewbitError


def rows(*probabilities: list[float]) -> np.ndarray:
    return np.log(np.array(probabilities))


def test_log_softmax_is_exact_far_from_zero():
    got = log_softmax(np.array([[1e4, 1e4 + math.log(3)]], np.float32).astype(np.float32))
    np.testing.assert_allclose(np.exp(got).sum(axis=1), 1, rtol=1e-12)


def test_perplexity_of_a_uniform_model_is_its_vocabulary():
    tally = Tally()
    tally.add(log_softmax(np.zeros((5, 32), np.float32)), np.arange(5))
    assert tally.figures()["perplexity"] == pytest.approx(32)


def test_divergences_by_hand():
    tally = Tally()
    model, reference = rows([0.5, 0.25, 0.25], [0.2, 0.7, 0.1]), rows([0.25, 0.5, 0.25], [0.2, 0.7, 0.1])
    tally.add(model, np.array([1, 0]), reference)
    figures = tally.figures()
    kl = 0.25 * math.log(0.25 / 0.5) + 0.5 * math.log(0.5 / 0.25)
    assert figures["kl_mean"] == pytest.approx(kl / 2)
    assert figures["kl_max"] == pytest.approx(kl)
    assert figures["top1_agreement"] == 0.5
    assert figures["reference_perplexity"] == pytest.approx(math.sqrt(1 / (0.5 * 0.2)))
    assert figures["dlogp_mean"] == pytest.approx(math.log(2) / 2)
    assert figures["dlogp_max"] == pytest.approx(math.log(2))
    assert figures["nll_mean"] == pytest.approx(-(math.log(0.25) + math.log(0.2)) / 2)


def test_equal_rows_diverge_by_exactly_nothing():
    tally = Tally()
    logits = np.random.default_rng(0).standard_normal((7, 100)).astype(np.float32)
    tally.add(log_softmax(logits), np.arange(7), log_softmax(logits))
    assert (tally.kl, tally.dlogp, tally.agreeing) == (0.0, 0.0, 7)


def test_a_token_that_the_reference_rules_out_adds_nothing():
    tally = Tally()
    with np.errstate(divide="ignore"):
        tally.add(rows([0.5, 0.5]), np.array([0]), rows([1.0, 0.0]))
    assert tally.kl == pytest.approx(math.log(2))


def test_nan_and_foreign_vocabularies_are_refused():
    with pytest.raises(FewbitError, match="NaN after 3 scored tokens"):
        tally = Tally()
        tally.add(rows([0.5, 0.5], [0.5, 0.5]), np.array([0, 1]))
        tally.add(np.array([[np.nan, np.nan]]), np.array([0]))
    with pytest.raises(FewbitError, match="vocabulary of 3 tokens, the model of 2"):
        Tally().add(rows([0.5, 0.5]), np.array([0]), rows([0.2, 0.3, 0.5]))
