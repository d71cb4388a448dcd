"""sample and gather_rows rows: exact cases, ties and extremes, the f64 reference, distributions, one set of bits."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.cpu.rows import assert_close, assert_same_bits, need, rows_of, run

ROWS = rows_of("sample")
SCALAR = "sample_f32_scalar"
VOCABS = (1, 2, 15, 16, 17, 63, 64, 65, 4095, 4097, 49152)
by_row = pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
INF, NAN = np.inf, np.nan
SETTINGS = (
    {},
    {"top_k": 1},
    {"top_k": 7},
    {"top_p": 0.9},
    {"min_p": 0.1},
    {"top_k": 40, "top_p": 0.8, "min_p": 0.02},
    {"top_p": 1e-9},
    {"top_k": 1 << 30, "top_p": 1.0, "min_p": 0.0},
)


def sample(row, logits, threads=1, **settings) -> dict[str, np.ndarray]:
    """Outputs for logits [rows, vocab]; settings are numbers or one per row."""
    logits = np.ascontiguousarray(np.atleast_2d(np.asarray(logits, np.float32)))
    n, vocab = logits.shape
    values = {
        "temperature": 0.0,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "uniform": 0.0,
        "top_n": 0,
    } | settings
    inputs = {
        k: np.full(n, v, np.int32 if k in ("top_k", "top_n") else np.float32) for k, v in values.items()
    }
    out = {
        "ids": np.full(n, -9, np.int32),
        "logprob": np.zeros(n, np.float32),
        "top_ids": np.full((n, 20), -9, np.int32),
        "top_logprobs": np.zeros((n, 20), np.float32),
        "nan": np.full(n, -9, np.int32),
    }
    run(row, threads=threads, logits=logits, rows=n, vocab=vocab, **inputs, **out)
    return out


def random_logits(rows: int, vocab: int, spread: float = 3.0, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((rows, vocab)) * spread).astype(np.float32)


@by_row
@pytest.mark.parametrize("vocab", VOCABS)
def test_greedy_and_its_logprob(row, vocab):
    need(row)
    logits = random_logits(3, vocab)
    out = sample(row, logits)
    wide = logits.astype(np.float64)
    assert (out["ids"] == wide.argmax(1)).all() and not out["nan"].any()
    expected = wide.max(1) - (wide.max(1) + np.log(np.exp(wide - wide.max(1, keepdims=True)).sum(1)))
    # exp and log to 8.4e-8, blocks of 4096 summed in 16 lanes, one rounding of the result
    assert_close(out["logprob"], expected, 2.0**-24 * (256 / 2 + 8) + 2.0**-23 * np.abs(expected), "logprob")


@by_row
def test_the_lowest_id_wins_a_tie(row):
    need(row)
    for where in ((3, 5), (0, 16), (15, 16), (17, 31)):
        logits = np.full(33, -1.0, np.float32)
        logits[list(where)] = 4
        assert sample(row, logits)["ids"][0] == where[0]
    zeros = np.array([-1, -0.0, 0.0, -0.0], np.float32)  # one value
    assert sample(row, zeros)["ids"][0] == 1
    assert (sample(row, zeros, top_n=3)["top_ids"][0, :3] == [1, 2, 3]).all()
    assert sample(row, np.zeros(100), top_n=20)["top_ids"][0].tolist() == list(range(20))
    assert sample(row, np.zeros((1, 100)), temperature=1, top_k=10, uniform=0.95)["ids"][0] == 9


@by_row
def test_exact_cumulative_probabilities(row):
    """p = 1/2, 1/4, 1/8, 1/8 at ids 2, 0, 3, 1: which id each stretch of `uniform` gives."""
    need(row)
    logits = np.log(np.array([[0.25, 0.125, 0.5, 0.125]])).astype(np.float32)
    logits[0, 3] = logits[0, 1]

    def ids(uniforms, **settings):
        uniforms = np.array(uniforms, np.float32)
        return sample(row, np.repeat(logits, len(uniforms), 0), temperature=1, uniform=uniforms, **settings)[
            "ids"
        ].tolist()

    near = 1e-6
    stretches = [0, 0.5 - near, 0.5 + near, 0.75 - near, 0.75 + near, 0.875 - near, 0.875 + near, 1 - near]
    assert ids(stretches) == [2, 2, 0, 0, 1, 1, 3, 3]  # the tie goes by id
    assert ids([0, 2 / 3 - near, 2 / 3 + near, 1 - near], top_k=2) == [2, 2, 0, 0]
    assert ids([0, 1 - near], top_k=1) == [2, 2]
    assert ids([2 / 3 - near, 2 / 3 + near, 1 - near], top_p=0.6) == [
        2,
        0,
        0,
    ]  # the token that reaches 0.6 is kept
    assert ids([0, 1 - near], top_p=0.4) == [2, 2]
    assert ids([2 / 3 - near, 2 / 3 + near, 1 - near], min_p=0.4) == [2, 0, 0]
    assert ids([0, 1 - near], min_p=1) == [2, 2]
    assert ids([0.99], top_k=3, top_p=0.9) == [1]  # of 4/7, 2/7, 1/7 the third reaches 0.9
    # at temperature 1/2 the squares: 16, 4, 1, 1 of 22
    squares = np.array([16, 20, 21]) / 22
    found = sample(
        row,
        np.repeat(logits, 6, 0),
        temperature=0.5,
        uniform=np.array([u + s for u in squares for s in (-near, near)], np.float32),
    )
    assert found["ids"].tolist() == [2, 0, 0, 1, 1, 3]


@by_row
@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("spread", (0.3, 3.0, 10.0))
def test_against_the_reference_in_f64(row, settings, spread):
    """The chosen rank, unless `uniform` lies within 1e-5 of a step of the cumulative probability."""
    need(row)
    rows, vocab = 12, 3000
    logits = random_logits(rows, vocab, spread, seed=1)
    rng = np.random.default_rng(2)
    uniform, temperature = (
        rng.random(rows).astype(np.float32),
        rng.choice(np.array([0.5, 1, 1.3], np.float32), rows),
    )
    found = sample(row, logits, uniform=uniform, temperature=temperature, **settings)
    for r in range(rows):
        order = np.argsort(-logits[r], kind="stable")
        ranked = logits[r, order].astype(np.float64)
        p = np.exp((ranked - ranked[0]) / temperature[r])[: settings.get("top_k", 0) or None]
        top_p, min_p = np.float32(settings.get("top_p", 1)), np.float32(settings.get("min_p", 0))
        if top_p < 1:
            p = p[: int(np.searchsorted(np.cumsum(p) / p.sum(), top_p)) + 1]
        p = p[p >= min_p]
        steps = np.concatenate([[0], np.cumsum(p) / p.sum()])
        rank = int(np.flatnonzero(order == found["ids"][r])[0])
        assert rank < len(p) and steps[rank] - 1e-5 <= uniform[r] <= steps[rank + 1] + 1e-5, (
            f"row {r}: rank {rank}"
        )


@by_row
def test_the_distribution_is_the_softmax(row):
    """Chi-square of 20000 draws over 24 tokens, fixed numbers; 60 is the 99.998 % point of 23 degrees of freedom."""
    need(row)
    logits = random_logits(1, 24, 1.0, seed=3)
    draws = 20000
    uniform = np.random.default_rng(4).random(draws).astype(np.float32)
    for settings, kept in (({}, 24), ({"top_k": 5}, 5)):
        ids = sample(row, np.repeat(logits, draws, 0), temperature=0.7, uniform=uniform, **settings)["ids"]
        p = np.exp((logits[0].astype(np.float64) - logits.max()) / 0.7)
        p[np.argsort(-logits[0])[kept:]] = 0
        p /= p.sum()
        counts = np.bincount(ids, minlength=24)
        assert not counts[p == 0].any()
        assert (((counts - draws * p) ** 2)[p > 0] / (draws * p[p > 0])).sum() < 60


@by_row
@pytest.mark.parametrize("vocab", VOCABS)
def test_top_logprobs_are_ranked_and_hold_the_chosen_one(row, vocab):
    need(row)
    logits = random_logits(2, vocab, seed=5)
    out = sample(row, logits, top_n=np.array([20, 3]), temperature=1, top_k=3, uniform=0.6)
    order = np.argsort(-logits, axis=1, kind="stable")
    for r, wanted in enumerate((20, 3)):
        n = min(wanted, vocab)
        assert (out["top_ids"][r, :n] == order[r, :n]).all()
        at = int(np.flatnonzero(out["top_ids"][r, :n] == out["ids"][r])[0])
        assert_same_bits(out["logprob"][r : r + 1], out["top_logprobs"][r, at : at + 1], "logprob")
        assert (out["top_ids"][r, wanted:] == -9).all() and (out["top_logprobs"][r, n:wanted] == -INF).all()


@by_row
def test_extreme_logits(row):
    need(row)
    with_nan = random_logits(3, 50)
    with_nan[1, 7] = NAN
    out = sample(row, with_nan, temperature=1, uniform=0.5, top_n=5)
    assert out["nan"].tolist() == [0, 1, 0] and out["ids"][1] == 0 and np.isnan(out["logprob"][1])
    assert sample(row, np.full(40, NAN))["nan"][0] == 1
    for temperature in (0, 1):
        settings = {"temperature": temperature, "uniform": 0.75, "top_n": 2}
        nothing = sample(row, np.full(40, -INF), **settings)
        assert nothing["ids"][0] == 0 and nothing["logprob"][0] == -INF and nothing["nan"][0] == 0
        masked = np.full(40, -INF, np.float32)
        masked[33] = -5
        one = sample(row, masked, **settings)
        assert (
            one["ids"][0] == 33
            and one["logprob"][0] == 0
            and one["top_logprobs"][0].tolist()[:2] == [0, -INF]
        )
        infinite = np.zeros(40, np.float32)
        infinite[[3, 20]] = INF
        both = sample(row, infinite, **settings)
        assert both["ids"][0] == (20 if temperature else 3)
        assert abs(both["logprob"][0] + np.log(2)) < 1e-6
        huge = np.array([3e38, -3e38, 3.1e38, -3.4e38], np.float32)
        assert sample(row, huge, **settings)["ids"][0] == 2


@by_row
def test_extreme_settings(row):
    need(row)
    logits = random_logits(1, 100, seed=6)
    best = int(logits.argmax())
    for greedy in (
        {"temperature": 1e-40},
        {"temperature": 1e-30},
        {"temperature": NAN},
        {"temperature": -1},
        {"temperature": 1, "top_p": 0},
        {"temperature": 1, "min_p": 2},
    ):
        assert sample(row, logits, uniform=0.999, **greedy)["ids"][0] == best, greedy
    hot = sample(row, np.repeat(logits, 100, 0), temperature=INF, uniform=(np.arange(100) + 0.5) / 100)["ids"]
    assert sorted(hot) == list(range(100))  # uniform
    plain = sample(row, logits, temperature=1, uniform=0.4)["ids"][0]
    assert sample(row, logits, temperature=1, uniform=0.4, top_p=NAN, min_p=NAN, top_k=-1)["ids"][0] == plain


@by_row
def test_more_tokens_than_are_held_at_once(row):
    """200000 equal or nearly equal logits: bands must be halved, dropped, and ranked again after rewinding."""
    need(row)
    vocab = 200000
    flat = np.full((1, vocab), 2.5, np.float32)
    for settings, expected in (
        ({"uniform": 0.5}, 100000),
        ({"uniform": 0.9999}, 199980),
        ({"uniform": 0.5, "top_p": 0.75}, 75000),
        ({"uniform": 0.5, "min_p": 0.5}, 100000),
        ({"uniform": 0.5, "top_k": 150000}, 75000),
    ):
        assert abs(sample(row, flat, temperature=1, **settings)["ids"][0] - expected) <= 1, settings
    narrow = random_logits(1, vocab, 0.01, seed=7)
    order = np.argsort(-narrow[0], kind="stable")
    cumulative = np.cumsum(np.exp(narrow[0, order].astype(np.float64)))
    found = sample(row, narrow, temperature=1, uniform=0.75)["ids"][0]
    rank = int(np.flatnonzero(order == found)[0])
    assert abs(cumulative[rank] / cumulative[-1] - 0.75) < 2e-5


@by_row
@pytest.mark.parametrize("settings", [*SETTINGS, {"temperature": 0.0}], ids=str)
def test_same_bits_on_every_isa_batch_and_thread_count(row, settings):
    need(row)
    logits = random_logits(5, 5001, seed=8)
    settings = {"temperature": 0.9, "top_n": 20} | settings
    uniform = np.array([0, 0.2, 0.5, 0.9, 0.999], np.float32)
    expected = sample(SCALAR, logits, uniform=uniform, **settings)
    for threads in (1, 2, 3):
        found = sample(row, logits, threads, uniform=uniform, **settings)
        for name in expected:
            assert_same_bits(found[name], expected[name], f"{name} on {threads} threads")
    for r in range(5):
        alone = sample(row, logits[r : r + 1], uniform=uniform[r], **settings)
        for name in expected:
            assert_same_bits(alone[name][0:1], expected[name][r : r + 1], f"{name} of row {r}")


def test_gather_rows():
    x = np.random.default_rng(0).standard_normal((7, 100), np.float32)
    index = np.array([6, 0, 0, 3], np.int32)
    for threads in (1, 3):
        y = np.zeros((4, 100), np.float32)
        run("gather_rows_f32_scalar", threads=threads, x=x, index=index, y=y, rows=4, dim=100)
        assert_same_bits(y, x[index], "rows")
