"""Each tool runs once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.producers.tool import Answers, Tool, ask


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Tool], Answers]:
    ran: dict[str, Answers | AssertionError] = {}

    def get(tool: Tool) -> Answers:
        if tool.name not in ran:
            try:
                ran[tool.name] = ask(tool, tmp_path_factory.mktemp(tool.name))
            except AssertionError as error:  # it failed for all its tests: not once more for each
                ran[tool.name] = error
        found = ran[tool.name]
        if isinstance(found, AssertionError):
            raise found
        return found

    return get
