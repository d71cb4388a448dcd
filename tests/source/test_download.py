"""What crosses the wire: everything once, resumed where it stopped, believed only when its hash is right."""

from __future__ import annotations

import errno
import hashlib
import random
from pathlib import Path

import pytest
from huggingface_hub import constants

from fewbit.source import Source, blob, resolve_model
from fewbit.source.errors import SourceError
from tests.source.conftest import Start
from tests.source.stub_hub import COMMIT, Repo

CHUNK = 8192
BIG = random.Random(0).randbytes(100_000)
GOOD = {"config.json": b"{}", "tokenizer.json": b"[]", "model.safetensors": BIG}
BAD = {"modeling.py": b"boom", "pytorch_model.bin": b"\x80" * 9000, "README.md": b"# x"}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(constants, "DOWNLOAD_CHUNK_SIZE", CHUNK)


def content(source: Source) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in source.path.iterdir()}


def kept(cache: Path) -> list[bytes]:
    return [path.read_bytes() for path in cache.rglob("*.incomplete")]


def test_a_repository_is_downloaded_once_without_code_and_pickles(cache: Path, start: Start) -> None:
    hub = start({"org/name": Repo(GOOD | BAD)})
    steps: list[tuple[int, int]] = []
    found = resolve_model("org/name", progress=lambda done, total: steps.append((done, total)))
    assert found == Source(cache / "models--org--name" / "snapshots" / COMMIT, "org/name")
    assert content(found) == GOOD
    assert not any(name in path for name in BAD for _, path, _ in hub.requests)
    assert steps == [(min(done, len(BIG)), len(BIG)) for done in range(CHUNK, len(BIG) + CHUNK, CHUNK)]
    hub.requests.clear()
    for name in ("org/name", "org/name@main", f"org/name@{COMMIT}"):
        assert resolve_model(name).path == found.path
    assert hub.requests == [] and kept(cache) == []


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
def test_a_cut_connection_is_resumed_with_a_range(start: Start, reset: bool) -> None:
    hub = start({"org/name": Repo(dict(GOOD), cut={"model.safetensors": [40_000]}, reset=reset)})
    assert content(resolve_model("org/name")) == GOOD
    assert hub.got("model.safetensors") == ["", f"bytes={40_000 // CHUNK * CHUNK}-"]


def test_a_run_that_ended_is_taken_up_by_the_next(
    cache: Path, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = start({"org/name": Repo(dict(GOOD))})

    def interrupt(done: int, total: int) -> None:
        if done > 30_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        resolve_model("org/name", progress=interrupt)
    (part,) = kept(cache)
    assert part == BIG[: len(part)] and 20_000 < len(part) < 40_000
    hub.requests.clear()
    steps: list[int] = []
    assert content(resolve_model("org/name", progress=lambda done, total: steps.append(done))) == GOOD
    assert hub.got("model.safetensors") == [f"bytes={len(part)}-"]
    assert steps[0] == len(part) + CHUNK and steps[-1] == len(BIG)


def test_a_hub_without_ranges_begins_again_and_the_count_does_too(cache: Path, start: Start) -> None:
    hub = start({"org/name": Repo(dict(GOOD), cut={"model.safetensors": [40_000]}, ranges=False)})
    steps: list[int] = []
    assert content(resolve_model("org/name", progress=lambda done, total: steps.append(done))) == GOOD
    assert len(hub.got("model.safetensors")) == 2
    assert steps[-1] == len(BIG) and 0 in steps


@pytest.mark.parametrize("junk", [BIG[:5000][::-1], BIG + b"more"], ids=["other bytes", "too long"])
def test_a_damaged_part_is_found_by_its_hash_and_thrown_away(cache: Path, start: Start, junk: bytes) -> None:
    start({"org/name": Repo(dict(GOOD))})
    blobs = cache / "models--org--name" / "blobs"
    blobs.mkdir(parents=True)
    digest = hashlib.sha256(BIG).hexdigest()
    (blobs / f"{digest}.fewbit.incomplete").write_bytes(junk)
    if len(junk) < len(BIG):
        with pytest.raises(
            SourceError, match=rf"model.safetensors has SHA-256 \w+, expected {digest}; .* start again"
        ):
            resolve_model("org/name")
        assert kept(cache) == [] and not (blobs / digest).exists()
    assert content(resolve_model("org/name")) == GOOD


def test_wrong_bytes_and_too_many_are_refused(cache: Path, start: Start) -> None:
    hub = start({"org/name": Repo(dict(GOOD), lies={"model.safetensors": BIG[::-1]})})
    with pytest.raises(SourceError, match="has SHA-256"):
        resolve_model("org/name")
    hub.repos["org/name"].lies["model.safetensors"] = BIG * 2
    with pytest.raises(SourceError, match="sends more than the 100000 bytes"):
        resolve_model("org/name")
    assert not list(cache.rglob("snapshots/*/model.safetensors"))


def test_shards_of_equal_content_are_fetched_once(start: Start) -> None:
    names = [f"model-0000{i}-of-00003.safetensors" for i in (1, 2, 3)]
    files = dict(zip(names, (BIG, BIG, BIG[::-1]))) | {
        "model.safetensors.index.json": b"{}",
        "config.json": b"{}",
    }
    hub = start({"org/name": Repo(dict(files))})
    assert content(resolve_model("org/name")) == files
    assert sorted(len(hub.got(name)) for name in names) == [0, 1, 1]


def test_one_of_several_gguf_files(cache: Path, start: Start) -> None:
    hub = start({"org/name": Repo({"m-Q4_0.gguf": BIG, "m-Q8_0.gguf": BIG[::-1], "config.json": b"{}"})})
    found = resolve_model("org/name:q8_0")
    assert (
        found.path.name == "m-Q8_0.gguf"
        and found.path.read_bytes() == BIG[::-1]
        and found.title == "org/name:q8_0"
    )
    assert not hub.got("m-Q4_0.gguf") and not hub.got("config.json")
    hub.requests.clear()
    assert resolve_model("org/name:Q8_0").path == found.path and hub.requests == []
    with pytest.raises(SourceError, match="name one: org/name:Q4_0, org/name:Q8_0"):
        resolve_model("org/name")


def test_a_full_disk(cache: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = start({"org/name": Repo(dict(GOOD))})
    usage = type("Usage", (), {"free": 99_999})
    with monkeypatch.context() as patched:
        patched.setattr("shutil.disk_usage", lambda path: usage)
        with pytest.raises(
            SourceError,
            match=r"org/name needs 97.7 KiB more, but the disk under .* has 97.7 KiB left; free space",
        ):
            resolve_model("org/name")
    assert hub.got("model.safetensors") == []
    write = blob._Arriving.write

    def full(self: blob._Arriving, data: bytes) -> int:
        if self.tell() > 50_000:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(self, data)

    with monkeypatch.context() as patched:
        patched.setattr(blob._Arriving, "write", full)
        with pytest.raises(
            SourceError, match=r"^org/name: the disk under .* is full; .* what is already downloaded is kept"
        ):
            resolve_model("org/name")
    assert content(resolve_model("org/name")) == GOOD
    assert hub.got("model.safetensors") == ["", f"bytes={(50_000 // CHUNK + 1) * CHUNK}-"]
