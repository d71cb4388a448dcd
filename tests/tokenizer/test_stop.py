"""Stop strings never leak, and nothing is held back that can't become one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fewbit.tokenizer.stop import StopMatcher


def reference(text: str, stops: list[str]) -> tuple[str, bool]:
    """Cut at the match that ends first, the longest of those."""
    for end in range(1, len(text) + 1):
        matches = [len(stop) for stop in stops if text[:end].endswith(stop)]
        if matches:
            return text[: end - max(matches)], True
    return text, False


def held(text: str, stops: list[str]) -> int:
    """Length of the longest suffix that is a proper prefix of a stop string."""
    return max(
        (n for stop in stops for n in range(len(stop)) if text.endswith(stop[:n])),
        default=0,
    )


letters = st.text("ab", min_size=1, max_size=5)


@settings(max_examples=400, deadline=None)
@given(st.lists(letters, max_size=4), st.lists(st.text("ab", max_size=4), max_size=12))
def test_against_the_definition(stops: list[str], pieces: list[str]) -> None:
    matcher = StopMatcher(stops)
    given_out, seen = "", ""
    for piece in pieces:
        seen += piece
        given_out += matcher.feed(piece)
        expected, stopped = reference(seen, stops)
        assert matcher.stopped == stopped
        if stopped:
            assert given_out == expected
            return
        assert given_out == seen[: len(seen) - held(seen, stops)]
    assert given_out + matcher.finish() == seen


def test_the_start_of_a_stop_string_does_not_leak() -> None:
    matcher = StopMatcher(["DEFGHIJ"])
    assert [matcher.feed(piece) for piece in ("ABC", "DEF", "G", "HI", "J", "K")] == [
        "ABC",
        "",
        "",
        "",
        "",
        "",
    ]
    assert matcher.stopped


def test_released_at_once_when_it_cannot_match() -> None:
    matcher = StopMatcher(["</think>"])
    assert [matcher.feed(piece) for piece in ("a <", "/t", "h", "x")] == ["a ", "", "", "</thx"]


def test_none_and_empty() -> None:
    assert StopMatcher([]).feed("text") == "text"
    with pytest.raises(ValueError, match="empty"):
        StopMatcher(["a", ""])
