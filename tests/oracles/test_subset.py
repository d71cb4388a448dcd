"""The checkpoints that a clone carries: small, and what the whole folder gives when it is cut."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracles.cut import cut
from tests.oracles.store import SUBSET, whole
from tests.oracles.table import CHECKS, KEPT_WHOLE, NO_REFERENCE

MOST_BYTES = 8_000_000


def files(folder: Path) -> dict[str, bytes]:
    found = {p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()}
    return {name: data for name, data in found.items() if name != "README.md"}


def test_every_checkpoint_is_in_it() -> None:
    entries = SUBSET.entries()
    assert entries.keys() == CHECKS.keys() - {NO_REFERENCE}
    assert {name for name, entry in entries.items() if not entry["cut"]} == KEPT_WHOLE
    on_disk = {folder.name for folder in (SUBSET.folder / "checkpoints").iterdir()}
    assert on_disk == entries.keys()


def test_it_stays_small() -> None:
    assert sum(map(len, files(SUBSET.folder).values())) < MOST_BYTES


def test_it_is_what_the_whole_folder_gives(tmp_path: Path) -> None:
    found = whole()
    if not found:
        pytest.skip("the whole folder of checkpoints is not here (FEWBIT_ORACLES says where)")
    cut(found, tmp_path)
    ours, theirs = files(SUBSET.folder), files(tmp_path)
    assert ours.keys() == theirs.keys()
    assert [name for name in ours if ours[name] != theirs[name]] == []
