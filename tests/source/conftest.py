from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from tests.source.stub_hub import Hub, Repo, stub_hub

Start = Callable[..., Hub]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, as HF_HUB_CACHE names it at start, and no token."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(folder))
    monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return folder


@pytest.fixture
def start(cache: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """`start({"org/name": Repo(...)})` runs a hub that holds these."""
    running = []

    def run(repos: dict[str, Repo]) -> Hub:
        context = stub_hub(repos)
        hub = context.__enter__()
        running.append(context)
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        template = hub.url + "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        return hub

    yield run
    for context in running:
        context.__exit__(None, None, None)
