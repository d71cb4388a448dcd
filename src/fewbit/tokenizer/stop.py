"""Stop strings in a stream: text is held back only while it may be the start of one.

Each string is followed by its Knuth-Morris-Pratt automaton, whose state is the length of the longest suffix of the text
so far that is a prefix of the string. So exactly the longest such suffix over all strings is held, whatever the pieces
in which the text comes. The match that ends first wins, of those that end together the longest.
"""

from __future__ import annotations

from collections.abc import Sequence


class StopMatcher:
    def __init__(self, stops: Sequence[str]) -> None:
        if "" in stops:
            raise ValueError("an empty stop string would stop every text at once")
        self._stops = [(stop, _failure_table(stop)) for stop in stops]
        self._states = [0] * len(stops)
        self._held = ""
        self.stopped = False

    def feed(self, text: str) -> str:
        """Text that can be given out now. After a match `stopped` is set and the stop string never appears."""
        if not self._stops or self.stopped:
            return "" if self.stopped else text
        pending = self._held + text
        for at, character in enumerate(text, len(self._held)):
            matched = 0
            for index, (stop, failure) in enumerate(self._stops):
                state = self._states[index]
                while state and stop[state] != character:
                    state = failure[state - 1]
                if stop[state] == character:
                    state += 1
                self._states[index] = state
                if state == len(stop):
                    matched = max(matched, state)
                    self._states[index] = failure[state - 1]
            if matched:
                self.stopped = True
                self._held = ""
                return pending[: at + 1 - matched]
        keep = len(pending) - max(self._states)
        self._held = pending[keep:]
        return pending[:keep]

    def finish(self) -> str:
        """What is still held, when the text ends without a stop string."""
        held, self._held = self._held, ""
        return held


def _failure_table(pattern: str) -> list[int]:
    """failure[i]: length of the longest proper prefix of pattern[: i + 1] that is also its suffix."""
    table = [0] * len(pattern)
    state = 0
    for index in range(1, len(pattern)):
        while state and pattern[state] != pattern[index]:
            state = table[state - 1]
        if pattern[state] == pattern[index]:
            state += 1
        table[index] = state
    return table
