"""Whatever runs beside it, however it is chunked, preempted or cancelled around: a request's tokens are its own."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewbit.engine.channel import Channel
from fewbit.engine.engine import Engine
from fewbit.engine.messages import (
    Cancel,
    Failed,
    Finished,
    FromEngine,
    Limits,
    PromptScores,
    Status,
    Submit,
    Token,
)
from fewbit.engine.sampling_params import SamplingParams
from tests.engine.fake_runner import FakeRunner, limits, next_token


class Bench:
    """An engine driven by hand, one turn at a time, its invariants checked after each."""

    def __init__(self, bounds: Limits, score_tokens: int = 64) -> None:
        self.channel = Channel()
        self.runner = FakeRunner(bounds.pages)
        self.engine = Engine(self.runner, bounds, self.channel, score_tokens)
        self.events: list[FromEngine] = []

    def submit(self, request_id: int, prompt: list[int], max_tokens: int = 8, **sampling: object) -> None:
        params = SamplingParams(max_tokens=max_tokens, **sampling)  # type: ignore[arg-type]
        self.channel.to_engine.send([Submit(request_id, prompt, params)])

    def turn(self) -> None:
        self.engine.turn()
        self.engine.scheduler.check()
        self.events += self.channel.from_engine.receive()

    def drain(self, most: int = 5000) -> None:
        self.turn()
        while not self.engine.scheduler.idle:
            self.turn()
            most -= 1
            assert most > 0, "the engine makes no progress"
        assert self.engine.status().free_pages == self.engine.limits.pages - 1

    def tokens(self, request_id: int) -> list[int]:
        return [e.token_id for e in self.events if isinstance(e, Token) and e.request_id == request_id]

    def end(self, request_id: int) -> Finished | Failed:
        ends = [e for e in self.events if isinstance(e, Finished | Failed) and e.request_id == request_id]
        assert len(ends) == 1
        return ends[0]


def greedy(prompt: list[int], count: int) -> list[int]:
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(next_token(tuple(tokens)))
    return tokens[len(prompt) :]


def prompt_of(length: int, salt: int = 0) -> list[int]:
    return [(index * 7 + salt * 31 + 3) % 256 for index in range(length)]


def test_one_request() -> None:
    bench = Bench(limits())
    bench.submit(1, prompt_of(70), 40)
    bench.drain()
    assert bench.tokens(1) == greedy(prompt_of(70), 40)
    assert bench.end(1) == Finished(1, "length", 70, 40)


requests = st.lists(st.tuples(st.integers(1, 90), st.integers(1, 60), st.booleans()), min_size=1, max_size=9)


@settings(max_examples=60, deadline=None)
@given(requests, st.integers(4, 80), st.integers(6, 30), st.data())
def test_tokens_do_not_depend_on_company_chunks_or_preemption(
    work: list[tuple[int, int, bool]], batch: int, pages: int, data: st.DataObject
) -> None:
    """Against the same requests, each alone, in one chunk, with all pages."""
    bench = Bench(limits(context=150, batch=batch, pages=pages))
    for request_id, (length, count, sampled) in enumerate(work):
        bench.submit(
            request_id, prompt_of(length, request_id), count, temperature=float(sampled), seed=request_id
        )
        for _ in range(data.draw(st.integers(0, 3))):
            bench.turn()
    bench.drain()
    for request_id, (length, count, sampled) in enumerate(work):
        count = min(count, 150 - length)
        alone = Bench(limits(context=150, batch=200))
        alone.submit(0, prompt_of(length, request_id), count, temperature=float(sampled), seed=request_id)
        alone.drain()
        assert bench.tokens(request_id) == alone.tokens(0)
        assert len(alone.tokens(0)) == count
        assert bench.end(request_id) == Finished(request_id, "length", length, count)


@settings(max_examples=60, deadline=None)
@given(requests, st.integers(6, 20), st.data())
def test_cancellation_at_any_moment_frees_pages(
    work: list[tuple[int, int, bool]], pages: int, data: st.DataObject
) -> None:
    bench = Bench(limits(context=150, batch=16, pages=pages))
    for request_id, (length, count, _) in enumerate(work):
        bench.submit(request_id, prompt_of(length, request_id), count)
        for _ in range(data.draw(st.integers(0, 4))):
            bench.turn()
        if victims := data.draw(st.sets(st.integers(0, request_id), max_size=2)):
            bench.channel.to_engine.send([Cancel(victim) for victim in victims])
    bench.drain()
    for request_id, (length, count, _) in enumerate(work):
        whole = greedy(prompt_of(length, request_id), min(count, 150 - length))
        got = bench.tokens(request_id)
        end = bench.end(request_id)
        assert isinstance(end, Finished) and end.output_tokens == len(got)
        assert got == (whole if end.reason == "length" else whole[: len(got)])


def test_preemption_happens_and_changes_nothing() -> None:
    bench = Bench(limits(context=150, batch=64, pages=8))
    for request_id in range(4):
        bench.submit(request_id, prompt_of(30, request_id), 100)
    bench.drain()
    assert bench.engine.status().preemptions > 0
    for request_id in range(4):
        assert bench.tokens(request_id) == greedy(prompt_of(30, request_id), 100)


def test_decoding_goes_on_during_a_long_prefill() -> None:
    bench = Bench(limits(context=256, batch=16))
    bench.submit(1, prompt_of(4), 40)
    bench.turn()
    bench.submit(2, prompt_of(200), 4)
    before = len(bench.tokens(1))
    for _ in range(10):
        bench.turn()
    assert len(bench.tokens(1)) - before == 10
    assert not bench.tokens(2)
    bench.drain()
    assert bench.tokens(2) == greedy(prompt_of(200), 4)


def test_first_come_first_served() -> None:
    """A short request does not overtake a long one that waits for pages."""
    bench = Bench(limits(context=150, batch=64, pages=8))
    bench.submit(1, prompt_of(100), 30)
    bench.submit(2, prompt_of(110), 5)
    bench.submit(3, prompt_of(3), 5)
    bench.drain()
    ends = [e.request_id for e in bench.events if isinstance(e, Finished)]
    assert ends == [1, 3, 2] or ends == [1, 2, 3]
    first = {e.request_id: i for i, e in reversed(list(enumerate(bench.events))) if isinstance(e, Token)}
    assert first[2] <= first[3]


def test_full_queue_is_refused() -> None:
    bench = Bench(limits(sequences=1, waiting=2))
    for request_id in range(5):
        bench.submit(request_id, prompt_of(5), 20)
    bench.drain()
    kinds = [e.kind for e in bench.events if isinstance(e, Failed)]
    assert kinds == ["overloaded"] * 2


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ([], "empty"),
        (prompt_of(256), "has 256 tokens, and the context of 256 leaves room for 255"),
        ([3, 256], "token id 256 is outside the vocabulary of 256"),
        ([-1], "token id -1 is outside"),
    ],
)
def test_impossible_prompts(prompt: list[int], text: str) -> None:
    bench = Bench(limits())
    bench.submit(1, prompt)
    bench.drain()
    end = bench.end(1)
    assert isinstance(end, Failed) and end.kind == "invalid" and text in end.message


def test_context_ends_a_request() -> None:
    bench = Bench(limits(context=64))
    bench.submit(1, prompt_of(63), 50)
    bench.submit(2, prompt_of(60), 50)
    bench.drain()
    assert bench.end(1) == Finished(1, "length", 63, 1)
    assert bench.end(2) == Finished(2, "length", 60, 4)


def test_stop_tokens_and_min_tokens() -> None:
    whole = greedy(prompt_of(9), 30)
    stop = whole[11]
    at = whole.index(stop)
    bench = Bench(limits())
    bench.submit(1, prompt_of(9), 30, stop_token_ids=(stop,))
    bench.submit(2, prompt_of(9), 30, stop_token_ids=tuple(range(256)), min_tokens=12)
    bench.submit(3, prompt_of(9), 30)
    bench.drain()
    assert bench.tokens(1) == whole[: at + 1] and bench.end(1) == Finished(1, "stop", 9, at + 1)
    assert bench.tokens(2) == whole[:12]
    assert bench.tokens(3) == whole


def test_a_failing_step_ends_its_requests_and_no_other() -> None:
    bench = Bench(limits())
    bench.submit(1, prompt_of(9), 30)
    bench.turn()

    def burst(batch: object) -> None:
        raise MemoryError("a page is gone")

    bench.runner.before = burst
    bench.turn()
    bench.runner.before = lambda batch: None
    bench.submit(2, prompt_of(9), 30)
    bench.drain()
    end = bench.end(1)
    assert isinstance(end, Failed) and end.kind == "internal" and "MemoryError" in end.message
    assert "page is gone" not in end.message
    assert bench.tokens(2) == greedy(prompt_of(9), 30)


def test_nan_logits_fail_that_request_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(limits())
    row = bench.runner._row
    monkeypatch.setattr(
        bench.runner, "_row", lambda seen: row(seen) * float("nan") if seen[0] == 99 else row(seen)
    )
    bench.submit(1, [99, 1], 5)
    bench.submit(2, [98, 1], 5)
    bench.submit(3, [99, 1, 2], 5, prompt_logprobs=0)
    bench.drain()
    for request_id in (1, 3):
        end = bench.end(request_id)
        assert isinstance(end, Failed) and end.kind == "numerics" and "NaN" in end.message
    assert bench.tokens(2) == greedy([98, 1], 5)


@pytest.mark.parametrize("batch", [7, 64])
@pytest.mark.parametrize("pages", [7, 33])
def test_prompt_scores(batch: int, pages: int) -> None:
    """Each prompt token but the first gets one score, preempted or not; the generated tokens are unchanged."""
    bench = Bench(limits(context=150, batch=batch, pages=pages), score_tokens=5)
    work = {request_id: prompt_of(20 + 9 * request_id, request_id) for request_id in range(4)}
    for request_id, prompt in work.items():
        bench.submit(request_id, prompt, 40 if request_id else 0, prompt_logprobs=3, top_logprobs=2)
    bench.drain()
    for request_id, prompt in work.items():
        scores = [e for e in bench.events if isinstance(e, PromptScores) and e.request_id == request_id]
        starts = [start for e in scores for start in range(e.start, e.start + len(e.logprobs))]
        assert starts == list(range(1, len(prompt)))
        assert bench.tokens(request_id) == greedy(prompt, 40 if request_id else 0)
        for event in scores:
            for offset, (logprob, top) in enumerate(zip(event.logprobs, event.tops, strict=True)):
                likeliest = next_token(tuple(prompt[: event.start + offset]))
                assert len(top) == 3 and top[0][0] == likeliest
                assert top == sorted(top, key=lambda entry: -entry[1])
                assert dict(top).get(prompt[event.start + offset], logprob) == logprob


def test_logprob_is_bit_equal_to_its_top_entry() -> None:
    bench = Bench(limits())
    bench.submit(1, prompt_of(5), 6, top_logprobs=4)
    bench.submit(2, prompt_of(5), 6, top_logprobs=0)
    bench.drain()
    tokens = [e for e in bench.events if isinstance(e, Token)]
    for event in tokens:
        assert event.top is not None
        if event.request_id == 1:
            assert len(event.top) == 4 and dict(event.top)[event.token_id] == event.logprob
        else:
            assert event.top == [] and event.logprob is not None


def test_minus_infinity_becomes_the_floor(monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(limits())
    row = bench.runner._row

    def banned(seen: tuple[int, ...]):  # type: ignore[no-untyped-def]
        logits = row(seen)
        logits[5:] = float("-inf")
        return logits

    monkeypatch.setattr(bench.runner, "_row", banned)
    bench.submit(1, [1, 77, 2], 2, top_logprobs=20, prompt_logprobs=20)
    bench.drain()
    scores = next(e for e in bench.events if isinstance(e, PromptScores))
    assert scores.logprobs[0] == -9999.0 and scores.tops[0][-1][1] == -9999.0
    token = next(e for e in bench.events if isinstance(e, Token))
    assert token.top is not None and token.top[-1][1] == -9999.0


def test_status_tells_the_load() -> None:
    bench = Bench(limits())
    bench.submit(1, prompt_of(5), 3)
    bench.drain()
    bench.turn()
    last = [e for e in bench.events if isinstance(e, Status)][-1]
    assert (last.running, last.waiting, last.free_pages) == (0, 0, 32)
