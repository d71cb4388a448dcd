"""Each tool runs once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.producers.tool import Answers, Tool, ask


@pytest.fixture(scope="session")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Tool], Answers]:
    ran: dict[str, Answers] = {}

    def get(tool: Tool) -> Answers:
        if tool.name not in ran:
            ran[tool.name] = ask(tool, tmp_path_factory.mktemp(tool.name))
        return ran[tool.name]

    return get
