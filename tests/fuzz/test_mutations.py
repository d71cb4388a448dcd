"""Mutations of valid files: each is read or refused with CheckpointError, never anything else."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import TARGETS, seed

SEEDS = {name: seed(name) for name in TARGETS}
HEADS = {"gguf": 5200, "safetensors": 1600}  # where the structure lies; most edits aim there
NUMBERS = [
    0,
    1,
    2,
    31,
    32,
    33,
    255,
    256,
    (1 << 31) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    1 << 60,
    (1 << 63) - 1,
    1 << 63,
    (1 << 64) - 1,
]


def edits(name: str) -> st.SearchStrategy[list[tuple[str, int, bytes]]]:
    size = len(SEEDS[name])
    head = min(HEADS.get(name, size), size)
    at = st.one_of(st.integers(0, head - 1), st.integers(0, size - 1))
    number = st.sampled_from(NUMBERS)
    data = st.one_of(
        st.binary(min_size=1, max_size=8),
        number.map(lambda v: struct.pack("<Q", v)),
        number.map(lambda v: struct.pack("<I", v & 0xFFFFFFFF)),
        st.sampled_from(
            [b"0", b"-", b'"', b"[", b"]", b"{", b"}", b",", b"null", b"true", b"NaN", b"1e999", b"9" * 30]
        ),
    )
    return st.lists(
        st.tuples(st.sampled_from(["set", "insert", "cut", "end"]), at, data), min_size=1, max_size=4
    )


def apply(data: bytes, changes: list[tuple[str, int, bytes]]) -> bytes:
    for kind, at, new in changes:
        match kind:
            case "set":
                data = data[:at] + new + data[at + len(new) :]
            case "insert":
                data = data[:at] + new + data[at:]
            case "cut":
                data = data[:at] + data[at + len(new) :]
            case _:
                data = data[: len(data) - at % 64] if at % 3 else data[:at]
    return data


@pytest.mark.parametrize("name", TARGETS)
def test_the_seed_is_read(tmp_path: Path, name: str) -> None:
    assert TARGETS[name](tmp_path, SEEDS[name])


@pytest.mark.parametrize("name", TARGETS)
@settings(max_examples=150, deadline=5000, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_mutations(tmp_path_factory: pytest.TempPathFactory, name: str, data: st.DataObject) -> None:
    folder = tmp_path_factory.getbasetemp() / f"fuzz-{name}"
    folder.mkdir(exist_ok=True)
    TARGETS[name](folder, apply(SEEDS[name], data.draw(edits(name))))


@pytest.mark.parametrize("name", ["gguf", "safetensors"])
def test_every_truncation_of_the_header(tmp_path: Path, name: str) -> None:
    whole = SEEDS[name]
    for size in range(0, HEADS[name], 7):
        assert not TARGETS[name](tmp_path, whole[:size])
