"""The runner's edges: bounds of everything that becomes an address, steps without samples, what `run` says beside `logits`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fewbit.engine.runner import Runner
from fewbit.kernels.ops.recorder import Ops
from tests.models.tiny import Driver, plain_llama, runner_of


@pytest.fixture(scope="module", params=["reference", "cpu"])
def runner(request: pytest.FixtureRequest, backends: Any) -> Runner:
    return runner_of(plain_llama(), backends(request.param))


@pytest.fixture
def driver(runner: Runner) -> Driver:
    return Driver(runner)


@pytest.mark.parametrize(
    ("field", "index", "value", "text"),
    [
        ("token_ids", 2, 160, "token_ids holds 160, expected 0..159"),
        ("token_ids", 2, -1, "token_ids holds -1"),
        ("slots", 0, 32 * 32, "slots holds 1025"),
        ("slots", 0, -2, "slots holds -1"),
        ("page_table", 0, [32], "page_table holds 32, expected 0..31"),
        ("page_table", 0, [-1], "page_table holds -1"),
        ("kv_len", 0, 193, "kv_len holds 193, expected 0..192"),
        ("sample_rows", 0, 3, "sample_rows holds 3, expected 0..2"),
        ("q_start", 1, 2, "q_start runs from 0 to 2, expected 0 to 3"),
    ],
)
def test_what_becomes_an_address_is_checked(
    driver: Driver, field: str, index: int, value: Any, text: str
) -> None:
    batch = driver.batch({0: [1, 2, 3]}, all_rows=False)
    getattr(batch, field)[index] = value
    with pytest.raises(ValueError) as error:
        driver.runner.run(batch)
    assert text in str(error.value)


def test_more_than_capacity_is_refused(driver: Driver) -> None:
    with pytest.raises(
        ValueError, match=r"a batch of 65 rows and 1 sequences; .* 1..64 rows and 1..8 sequences"
    ):
        driver.runner.run(driver.batch({0: [1] * 65}, all_rows=False))
    with pytest.raises(ValueError, match="9 sampled rows; the runner was made for 8"):
        driver.runner.run(driver.batch({0: [1] * 9}))


def test_run_samples_what_logits_rank(driver: Driver) -> None:
    text = {0: [5, 9, 77, 3], 1: [8], 2: [4, 4]}
    (a, b, c) = (logits[-1].astype(np.float64) for logits in driver.logits(text))
    driver.lengths.clear()
    out = driver.runner.run(driver.batch(text, all_rows=False))
    for i, logits in enumerate((a, b, c)):
        logprobs = logits - logits.max() - np.log(np.exp(logits - logits.max()).sum())
        assert list(out.top_ids[i, :5]) == list(np.argsort(-logits, kind="stable")[:5])
        assert out.token_ids[i] == out.top_ids[i, 0] and out.logprobs[i] == out.top_logprobs[i, 0]
        np.testing.assert_allclose(out.top_logprobs[i, :5], np.sort(logprobs)[::-1][:5], rtol=1e-5)
    assert not out.nan.any()


def test_a_chunk_without_samples_only_fills_the_cache(driver: Driver) -> None:
    whole = driver.logits({0: list(range(40))})[0][-1]
    driver.lengths.clear()
    head = driver.batch({1: list(range(39))})
    head.sample_rows = []
    assert driver.runner.run(head).token_ids.shape == (0,)
    (last,) = driver.logits({1: [39]})
    np.testing.assert_allclose(last[0], whole, atol=2e-3 * np.abs(whole).max())


def test_skipped_rows_store_nothing(driver: Driver) -> None:
    """Slot -1: a padded row leaves every page as it was."""
    before = [driver.runner.backend.array(cache.keys).copy() for cache in driver.runner._caches]
    batch = driver.batch({0: [1, 2, 3]}, all_rows=False)
    batch.slots = [-1, -1, -1]
    driver.runner.run(batch)
    for cache, old in zip(driver.runner._caches, before, strict=True):
        np.testing.assert_array_equal(driver.runner.backend.array(cache.keys), old)


def test_outputs_are_copies(driver: Driver) -> None:
    first = driver.runner.run(driver.batch({0: [1, 2, 3]}, all_rows=False))
    kept = first.top_logprobs.copy()
    driver.runner.run(driver.batch({1: [60, 61]}, all_rows=False))
    np.testing.assert_array_equal(first.top_logprobs, kept)


def test_a_step_of_one_row_each_is_decode(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention's kernels are chosen by phase."""
    phases = []

    class Spy(Ops):
        def __init__(self, selector: Any, m: int, phase: Any = "any") -> None:
            phases.append(phase)
            super().__init__(selector, m, phase)

    monkeypatch.setattr("fewbit.engine.runner.Ops", Spy)
    fresh = Driver(runner_of(plain_llama(), runner.backend))
    fresh.logits({0: [5, 6, 7], 1: [8]})
    fresh.logits({0: [5], 1: [6]})
    assert [phase for phase in phases if phase != "any"] == ["prefill", "decode"]
