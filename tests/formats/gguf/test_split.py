"""A model in three files is the model in one; missing, renamed and foreign parts are refused by name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fewbit.formats import open_checkpoint
from fewbit.spec.refusal import CheckpointError
from tests.formats.gguf.fixture import tiny_gguf_parts, write_gguf

PARTS = 3
METADATA, TENSORS = tiny_gguf_parts()


def name(part: int, count: int = PARTS) -> str:
    return f"m-{part:05}-of-{count:05}.gguf"


def split(folder: Path, changes: dict[int, dict[str, Any]] | None = None) -> Path:
    """`changes` go to the metadata of a part, None takes a key away."""
    for part in range(PARTS):
        keys = {"split.no": part, "split.count": PARTS, "split.tensors.count": len(TENSORS)}
        metadata = {**(METADATA if part == 0 else {}), **keys, **(changes or {}).get(part, {})}
        metadata = {key: value for key, value in metadata.items() if value is not None}
        write_gguf(folder / name(part + 1), metadata, dict(list(TENSORS.items())[part::PARTS]))
    return folder / name(1)


def test_parts_are_one_model(tmp_path: Path) -> None:
    whole = open_checkpoint(write_gguf(tmp_path / "whole.gguf", METADATA, TENSORS))
    parts = open_checkpoint(split(tmp_path))
    assert parts.config == whole.config and set(parts.tensors) == set(whole.tensors)
    assert {info.file.name for info in parts.tensors.values()} == {name(i + 1) for i in range(PARTS)}
    for tensor in whole.tensors:
        ours, theirs = parts.read(tensor).parts, whole.read(tensor).parts
        assert all(ours[role].tobytes() == theirs[role].tobytes() for role in theirs)
    parts.close()


def test_a_first_part_without_tensors(tmp_path: Path) -> None:
    """llama.cpp can leave the first file to the metadata alone."""
    for part, held in enumerate(({}, TENSORS)):
        keys = {"split.no": part, "split.count": 2, "split.tensors.count": len(TENSORS)}
        write_gguf(tmp_path / name(part + 1, 2), {**(METADATA if part == 0 else {}), **keys}, held)
    assert open_checkpoint(tmp_path / name(1, 2)).tensors


def renamed(folder: Path) -> Path:
    return split(folder).rename(folder / "model.gguf")


def missing(folder: Path) -> Path:
    first = split(folder)
    (folder / name(2)).unlink()
    return first


def swapped(folder: Path) -> Path:
    first = split(folder)
    second = (folder / name(2)).read_bytes()
    (folder / name(3)).rename(folder / name(2))
    (folder / name(3)).write_bytes(second)
    return first


def doubled(folder: Path) -> Path:
    first = split(folder)
    keys = {"split.no": 2, "split.count": PARTS, "split.tensors.count": len(TENSORS)}
    write_gguf(folder / name(3), keys, dict(list(TENSORS.items())[:1]))
    return first


def truncated(folder: Path) -> Path:
    first = split(folder)
    (folder / name(3)).write_bytes((folder / name(3)).read_bytes()[:-40])
    return first


def second(folder: Path) -> Path:
    split(folder)
    return folder / name(2)


CASES: dict[str, tuple[Callable[[Path], Path], str]] = {
    "renamed": (renamed, "model.gguf: is part 1 of 3, so its name must end in '-00001-of-00003.gguf'"),
    "missing": (missing, f"part {name(2)} is not beside it"),
    "swapped": (swapped, f"{name(2)}: metadata key 'split.no' is 2, expected 1"),
    "a tensor twice": (doubled, f"'token_embd.weight' is both in {name(1)} and in {name(3)}"),
    "truncated": (truncated, f"{name(3)}: tensor '.*' .* truncated"),
    "not the first": (second, f"{name(2)}: is part 2 of 3; give the first: {name(1)}"),
    "another count": (lambda d: split(d, {2: {"split.count": 4}}), "'split.count' is 4, expected 3 for part 3"),
    "no count in a part": (lambda d: split(d, {1: {"split.count": None}}), "'split.count' is None, expected 3"),
    "another total": (lambda d: split(d, {1: {"split.tensors.count": 9}}), "'split.tensors.count' is 9, expected 21"),
    "a wrong total": (
        lambda d: split(d, {i: {"split.tensors.count": 22} for i in range(PARTS)}), "is 22, but the 3 parts hold 21"),
    "no number": (lambda d: split(d, {0: {"split.no": None}}), "'split.no' is None, expected 0 to 2"),
    "a number beyond": (lambda d: split(d, {0: {"split.no": 3}}), "'split.no' is 3, expected 0 to 2"),
    "a count beyond": (lambda d: split(d, {0: {"split.count": 1 << 31}}), "'split.count' is 2147483648"),
    "a fraction": (lambda d: split(d, {0: {"split.count": 2.5}}), "'split.count' is 2.5"),
    "metadata in a part": (lambda d: split(d, {1: {"llama.block_count": 2}}), f"{name(2)}: metadata key 'llama.block_count'"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    build, expected = CASES[case]
    with pytest.raises(CheckpointError, match=expected):
        open_checkpoint(build(tmp_path))
