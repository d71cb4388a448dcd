"""A GGUF file is read where its tensors are said to lie, or refused with the tensor's name; padding at the end is no second file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats.gguf.container import DiskTensor
from fewbit.loader.open import open_model
from fewbit.schemes.reference import dequantize
from fewbit.spec.refusal import CheckpointError
from tests.bugs.guard import guarded
from tests.formats.gguf.fixture import RawTensor, gguf_bytes, raw_tensor, tiny_gguf_parts, write_gguf

METADATA, TENSORS = tiny_gguf_parts()
Q, K = "blk.0.attn_q.weight", "blk.0.attn_k.weight"


def weights(path: Path) -> dict[str, np.ndarray]:
    checkpoint = open_model(path)
    try:
        return {name: dequantize(checkpoint.read(name)) for name in checkpoint.tensors}
    finally:
        checkpoint.close()


def assert_same(path: Path, other: Path) -> None:
    ours, theirs = weights(path), weights(other)
    assert ours.keys() == theirs.keys()
    for name, weight in ours.items():
        assert np.array_equal(weight, theirs[name]), name


def _always_32(cursor: Any, metadata: Any) -> int:
    return 32


@pytest.mark.parametrize("alignment", [64, 128, 4096])
@guarded("fewbit.formats.gguf.container:_alignment", _always_32)
def test_the_alignment_that_the_file_states_is_followed(tmp_path: Path, alignment: int) -> None:
    """The data begins at the next multiple of it: read from a multiple of 32, every weight would be another."""
    base = write_gguf(tmp_path / "base.gguf", METADATA, TENSORS)
    for extra in range(0, alignment, 32):  # wherever the header ends
        stated = {**METADATA, "general.alignment": alignment, "general.name": "x" * extra}
        assert_same(write_gguf(tmp_path / "m.gguf", stated, TENSORS, alignment=alignment), base)


@pytest.mark.parametrize("stated", [0, -1, 48])
@guarded("fewbit.formats.gguf.container:_alignment", lambda cursor, metadata: 32, "DID NOT RAISE")
def test_an_alignment_that_is_no_power_of_two_is_refused(tmp_path: Path, stated: int) -> None:
    path = write_gguf(tmp_path / "m.gguf", {**METADATA, "general.alignment": stated}, TENSORS)
    with pytest.raises(CheckpointError, match=rf"'general\.alignment' is {stated}, expected a power of two"):
        open_model(path)


@pytest.mark.parametrize("count", [0, 1, 7, 31, 32, 63])
def test_padding_after_the_last_tensor_is_no_second_header(tmp_path: Path, count: int) -> None:
    base = write_gguf(tmp_path / "base.gguf", METADATA, TENSORS)
    padded = tmp_path / "m.gguf"
    padded.write_bytes(base.read_bytes() + bytes(count))
    assert_same(padded, base)


def changed(name: str, **changes: Any) -> bytes:
    return gguf_bytes(METADATA, {**TENSORS, name: replace(raw_tensor(TENSORS[name]), **changes)})


def refusal(tmp_path: Path, data: bytes) -> str:
    path = tmp_path / "broken.gguf"
    path.write_bytes(data)
    with pytest.raises(CheckpointError) as error:
        weights(path)
    assert str(path) in str(error.value)
    return str(error.value)


def _anywhere(
    cursor: Any, file: Any, start: int, alignment: int, name: str, kind: Any, shape: Any, offset: int
) -> DiskTensor:
    count = kind.row_bytes(shape[-1]) * int(np.prod(shape[:-1], dtype=np.int64))
    return DiskTensor(name, kind, shape, min(start + offset, file.size - count), count, file)


@guarded("fewbit.formats.gguf.container:_place", _anywhere, "DID NOT RAISE|overlap")
def test_a_last_tensor_that_is_a_byte_short_is_named(tmp_path: Path) -> None:
    last = list(TENSORS)[-1]
    text = refusal(tmp_path, gguf_bytes(METADATA, TENSORS)[:-1])
    assert f"tensor {last!r}" in text and "but the file has" in text


@guarded("fewbit.formats.gguf.container:_check_overlaps", lambda cursor, tensors: None, "DID NOT RAISE|NaN")
def test_tensors_that_lie_in_one_another_are_named(tmp_path: Path) -> None:
    """A region smaller than its type needs reaches into the next tensor."""
    text = refusal(tmp_path, changed(K, offset=32))
    assert "overlap" in text and f"{K!r}" in text
    short = raw_tensor(TENSORS[Q])
    text = refusal(tmp_path, gguf_bytes(METADATA, {**TENSORS, Q: replace(short, data=short.data[:-32])}))
    assert "overlap" in text and f"{Q!r}" in text


@guarded("fewbit.formats.gguf.container:_place", _anywhere, "DID NOT RAISE|overlap")
def test_an_offset_that_is_not_aligned_is_named(tmp_path: Path) -> None:
    assert f"tensor {K!r} begins at data offset 33" in refusal(tmp_path, changed(K, offset=33))


CASES: dict[str, tuple[bytes, str]] = {
    "half the file": (gguf_bytes(METADATA, TENSORS)[: len(gguf_bytes(METADATA, TENSORS)) // 2], "but the file has"),
    "seven bytes before the magic": (b"1234567" + gguf_bytes(METADATA, TENSORS), "magic stands at byte 7"),
    "rows that are no whole blocks": (changed(Q, kind=12), "expected a multiple of the block of 256"),
    "a type that is not known": (changed(Q, kind=77), f"tensor {Q!r} has the unknown type id 77"),
    "five dimensions": (changed(Q, extents=(64, 1, 1, 1, 64)), f"tensor {Q!r} has 5 dimensions"),
    "2^60 elements": (changed(Q, extents=(1 << 30, 1 << 30)), f"tensor {Q!r}"),
    "more elements than 64 bits count": (changed(Q, extents=(1 << 63, 1 << 63)), f"tensor {Q!r} has extents"),
    "a stray tensor": (gguf_bytes(METADATA, {**TENSORS, "x.y": RawTensor(0, (4,), bytes(16))}), "'x.y' has no place"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_cannot_be_is_refused_by_name(tmp_path: Path, case: str) -> None:
    data, expected = CASES[case]
    assert expected in refusal(tmp_path, data)
