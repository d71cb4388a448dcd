"""A conversion that is killed, interrupted or out of room leaves nothing at its place."""

from __future__ import annotations

import errno
import fcntl
import os
import resource
import shutil
import signal
import subprocess
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from fewbit.convert import shards
from fewbit.convert.atomic import work_folder
from fewbit.formats.gptq.config import Settings
from fewbit.spec.refusal import FewbitError
from tests.conftest import ROOT, cli_environment
from tests.convert.folders import converted, stored_tensors
from tests.formats.gptq.fixture import tiny_gptq

# Stops after some writes until it is ended: what a slow disk would do.
HELD = """
import sys, time
from fewbit.convert import shards
from fewbit.cli.app import main
write, left = shards.write_at, [20]
def held(*args):
    write(*args)
    left[0] -= 1
    if not left[0]:
        print("held", flush=True)
        time.sleep(60)
shards.write_at = held
main(sys.argv[1:])
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tiny_gptq(tmp_path / "start", Settings(4, 32, True, version=1))


def left_behind(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name != "start")


def held(source: Path, place: Path) -> subprocess.Popen[str]:
    """A conversion in the middle of writing."""
    command = [sys.executable, "-c", HELD, "convert", str(source), str(place), "--to", "awq"]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT, env=cli_environment()
    )
    assert child.stdout is not None and child.stdout.readline() == "held\n"
    return child


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(tmp_path: Path, source: Path, number: signal.Signals) -> None:
    child = held(source, tmp_path / "out")
    assert left_behind(tmp_path) == [".out.fewbit-partial"]
    child.send_signal(number)
    _, said = child.communicate(timeout=60)
    assert child.returncode == 130 and "Traceback" not in said
    assert left_behind(tmp_path) == []


def test_killed(tmp_path: Path, source: Path) -> None:
    """What it leaves is hidden, and the next run to the same place removes it."""
    child = held(source, tmp_path / "out")
    with pytest.raises(FewbitError, match="out is being written by another process"):
        converted(source, tmp_path / "out", "awq")
    child.kill()
    child.communicate(timeout=60)
    assert left_behind(tmp_path) == [".out.fewbit-partial"]
    converted(source, tmp_path / "out", "awq")
    assert left_behind(tmp_path) == ["out"]
    assert stored_tensors(tmp_path / "out")


@pytest.mark.parametrize("writes", [0, 1, 7, 40])
def test_a_disk_that_fills_up(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch, writes: int
) -> None:
    original, left = shards.write_at, [writes]

    def full(*args: object) -> None:
        if not left[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        left[0] -= 1
        original(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(shards, "write_at", full)
    with pytest.raises(
        FewbitError, match=r"out could not be written: No space left on device; nothing was left"
    ):
        converted(source, tmp_path / "out", "awq")
    assert left_behind(tmp_path) == []


def test_a_limit_on_files(tmp_path: Path, source: Path) -> None:
    """The kernel's own refusal, at the moment when room is taken."""

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    command = [
        sys.executable,
        "-m",
        "fewbit.cli.app",
        "convert",
        str(source),
        str(tmp_path / "out"),
        "--to",
        "awq",
    ]
    ran = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env=cli_environment(),
        preexec_fn=limited,
    )
    assert ran.returncode == 1
    assert "could not be written: File too large" in ran.stderr and "Traceback" not in ran.stderr
    assert left_behind(tmp_path) == []


def test_room_is_asked_for_first(tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10**6, 10**6 - 1000, 1000))
    with pytest.raises(FewbitError, match=r"out needs [\d,]+ bytes, but only 1,000 are free in"):
        converted(source, tmp_path / "out", "awq")
    assert left_behind(tmp_path) == []


def test_what_is_there_is_never_replaced(tmp_path: Path, source: Path) -> None:
    place = tmp_path / "out"
    place.mkdir()
    with pytest.raises(FewbitError, match="out exists already"):
        converted(source, place, "awq")
    place.rmdir()
    place.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FewbitError, match="out exists already"):
        converted(source, place, "awq")
    with pytest.raises(FewbitError, match="missing is no folder"):
        converted(source, tmp_path / "missing" / "out", "awq")


def test_a_wrong_byte_is_found_before_it_has_a_name(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proof reads back what was written; here the disk loses a bit."""
    original, left = shards.write_at, [9]

    def wrong(file: int, data: object, offset: int) -> None:
        left[0] -= 1
        raw = bytearray(memoryview(data).cast("B"))  # type: ignore[arg-type]
        raw[len(raw) // 2] ^= 0 if left[0] else 1
        original(file, bytes(raw), offset)

    monkeypatch.setattr(shards, "write_at", wrong)
    with pytest.raises(
        FewbitError, match="nothing was written, since the result would not be the same model"
    ):
        converted(source, tmp_path / "out", "compressed-tensors")
    assert left[0] < 0 and left_behind(tmp_path) == []


def test_a_locked_folder_is_not_removed(tmp_path: Path) -> None:
    place = tmp_path / "out"
    with work_folder(place) as folder:
        (folder / "x").write_text("mine")
        with pytest.raises(FewbitError, match="another process"), work_folder(place):
            pass
        assert (folder / "x").read_text() == "mine"
        with pytest.raises(BlockingIOError):
            fcntl.flock(os.open(folder, os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert left_behind(tmp_path) == []
