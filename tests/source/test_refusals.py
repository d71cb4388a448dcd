"""Each way in which a model cannot be had ends in one sentence that names the repository and what to do."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest
from huggingface_hub import constants

from fewbit.source import Source, resolve_model
from fewbit.source.errors import SourceError
from tests.source.conftest import Start
from tests.source.stub_hub import COMMIT, Repo

FILES = {"config.json": b"{}", "model.safetensors": b"x" * 5000}


def refused(name: str, **options: bool) -> str:
    with pytest.raises(SourceError) as caught:
        resolve_model(name, **options)
    text = str(caught.value)
    assert "\n" not in text and "http" not in text and ";" in text
    return text


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (None, "org/name is not on the hub, or is private; check the spelling, or set HF_TOKEN"),
        ((401, "GatedRepo"), "org/name is gated: its owner grants access one by one; ask for it"),
        ((403, "GatedRepo"), "org/name is gated"),
        ((403, ""), "org/name: the hub refuses access (status 403); set HF_TOKEN to a valid token"),
        ((500, ""), "org/name: the hub answers with status 500; try again later"),
        ((429, ""), "org/name: the hub answers with status 429; try again later"),
    ],
)
def test_the_hub_says_no(start: Start, answer: tuple[int, str] | None, text: str) -> None:
    start({"org/name": Repo({}, refuse=answer)} if answer else {})
    assert refused("org/name").startswith(text)


def test_a_missing_revision(start: Start) -> None:
    start({"org/name": Repo(FILES)})
    assert refused("org/name@v9").startswith(
        "org/name@v9: the repository has no revision 'v9'; give a branch, tag or commit"
    )


def test_pickles_alone_are_refused_before_anything_is_downloaded(cache: Path, start: Start) -> None:
    hub = start(
        {
            "org/name": Repo(
                {
                    "config.json": b"{}",
                    "pytorch_model.bin": b"\x80" * 5000,
                    "pytorch_model.bin.index.json": b"{}",
                }
            )
        }
    )
    assert refused("org/name").startswith("org/name holds its weights as pickle (pytorch_model.bin)")
    assert not any("/resolve/" in path for _, path, _ in hub.requests)
    assert not list(cache.rglob("snapshots"))


def test_names_that_the_hub_does_not_allow(cache: Path) -> None:
    for name in ("org--x/name", "org/name.git", "org/" + "n" * 120, "org/na..me"):
        assert "is no valid repository name; expected org/name" in refused(name)


@pytest.mark.parametrize("name", ["gpt2", "a/b/c", "org/name:", ""])
def test_what_is_neither_is_told_the_three_kinds(name: str) -> None:
    text = refused(name)
    assert text.startswith(
        f"model {name!r} is no file or folder here, nor `demo`, nor the name of a repository"
    )
    assert "org/name:Q4_K_M" in text


def nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setattr(constants, "ENDPOINT", f"http://127.0.0.1:{server.getsockname()[1]}")


def test_no_network(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody(monkeypatch)
    text = refused("org/name")
    assert text.startswith(f"org/name is not complete in the cache {cache}, and the hub cannot be reached (")
    assert "check network and proxy" in text


def test_offline_uses_the_cache_and_says_what_is_missing(
    cache: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    start({"org/name": Repo(FILES)})
    assert refused("org/name", offline=True).startswith(
        f"org/name is not complete in the cache {cache}, and offline nothing"
    )
    found = resolve_model("org/name")
    nobody(monkeypatch)
    assert resolve_model("org/name", offline=True) == resolve_model("org/name") == found
    (found.path / "model.safetensors").unlink()
    assert "leave out --offline" in refused("org/name", offline=True)
    assert "hub cannot be reached" in refused("org/name")


def test_a_cache_that_has_no_listing_is_completed_or_used(
    cache: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = start({"org/name": Repo(FILES)})
    found = resolve_model("org/name")
    shutil.rmtree(cache / "models--org--name" / "trees")
    monkeypatch.setattr("huggingface_hub._tree_cache._IN_MEMORY_TREE_CACHE", {})
    hub.repos["org/name"].refuse = (503, "")
    assert resolve_model("org/name") == resolve_model("org/name", offline=True) == found
    hub.repos["org/name"].refuse = (404, "RepoNotFound")
    assert "is not on the hub" in refused("org/name")
    (found.path / "model.safetensors").rename(cache / "elsewhere")
    assert "is not complete in the cache" in refused("org/name", offline=True)
    (cache / "elsewhere").rename(found.path / "model.safetensors")
    hub.repos["org/name"].refuse = None
    (found.path / "config.json").unlink()
    hub.requests.clear()
    assert resolve_model("org/name") == found and (found.path / "config.json").read_bytes() == b"{}"
    assert hub.got("model.safetensors") == []


def test_a_path_that_exists_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("org/name").mkdir(parents=True)
    assert resolve_model("org/name") == Source(Path("org/name"), "name")


def test_what_looks_like_a_path_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("/no/where", "./no/where", "models/a.gguf", "no/where/"):
        assert resolve_model(name).path == Path(name)
    assert resolve_model("~/a").path.is_absolute()


def test_a_server_that_is_no_hub(start: Start) -> None:
    """Its answer to a file lacks the commit."""
    hub = start({"org/name": Repo(FILES)})
    hub.commit = ""
    assert refused("org/name") == (
        "org/name: HF_ENDPOINT does not answer as a Hugging Face hub does; correct or unset it"
    )
    assert COMMIT
