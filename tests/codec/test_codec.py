"""What the library decodes is what numpy defines, byte for byte: all widths, signs, orders, borders and block types."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from fewbit import codec
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder import unpack
from fewbit.formats.folder.marlin import BYTES, HALF, _rows_order
from fewbit.formats.folder.packing import AWQ_ORDER, pack_bits
from fewbit.formats.gguf import decode as gguf
from fewbit.formats.gguf.types import TYPES, GgufType
from fewbit.schemes.arrays import Array
from fewbit.spec.refusal import CheckpointError
from tests.conftest import cli_environment

RNG = np.random.default_rng(23)


def numpy_only(monkeypatch: pytest.MonkeyPatch, function: object, *arguments: object) -> Array:
    with monkeypatch.context() as patch:
        patch.setattr(codec, "available", lambda: False)
        return function(*arguments)  # type: ignore[operator,no-any-return]


def test_the_library_is_there() -> None:
    assert codec.available()


@pytest.mark.parametrize("sign", ["none", "offset", "twos"])
@pytest.mark.parametrize("bits", range(1, 9))
def test_bit_streams(bits: int, sign: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for rows, count in ((1, 1), (3, 7), (2, 32), (5, 33), (4, 96), (1, 250), (17, 264)):
        words = pack_bits(RNG.integers(0, 1 << bits, (rows, count), dtype=np.uint8), bits)
        native = unpack.unpack_codes(words, bits, count, sign)
        expected = numpy_only(monkeypatch, unpack.unpack_codes, words, bits, count, sign)
        assert native.dtype == expected.dtype
        np.testing.assert_array_equal(native, expected, f"[{rows}, {count}]")


def test_every_code_in_every_place_of_a_word() -> None:
    for bits in range(1, 9):
        codes = np.array([[c] * 8 for c in range(1 << bits)], np.uint8)
        codes = np.concatenate([np.roll(np.eye(8, dtype=np.uint8), i, 1) * c[0] for i, c in enumerate(codes)])
        np.testing.assert_array_equal(codec.unpack_bits(pack_bits(codes, bits), bits, 8), codes)


@pytest.mark.parametrize("order", [AWQ_ORDER, (1, 0), (3, 1, 0, 2)])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_orders(bits: int, order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    words = pack_bits(RNG.integers(0, 1 << bits, (9, 64), dtype=np.uint8), bits)
    native = unpack.unpack_codes(words, bits, 64, "twos", order)
    expected = numpy_only(monkeypatch, unpack.unpack_codes, words, bits, 64, "twos", order)
    np.testing.assert_array_equal(native, expected)


def test_a_last_row_is_not_read_past_its_end() -> None:
    """Streams that end with the memory they lie in: a page that may not be touched follows."""
    import mmap

    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, page)
    for bits in range(1, 9):
        packed = np.frombuffer(memory, np.uint8)[page - bits * 3 :].reshape(3, bits)
        assert codec.unpack_bits(packed, bits, 8).sum() == 0


def test_more_codes_than_there_are_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="33 codes of 4 bits in 16 bytes"):
        codec.unpack_bits(np.zeros((2, 16), np.uint8), 4, 33)


@pytest.mark.parametrize("element", [np.uint8, np.uint16, np.uint32, np.uint64, np.float16])
@pytest.mark.parametrize("shape", [(1, 1), (7, 9), (8, 8), (31, 65), (32, 64), (100, 33), (0, 5)], ids=str)
def test_transposing(element: type, shape: tuple[int, int]) -> None:
    array = RNG.integers(0, 256, (shape[0], shape[1] * np.dtype(element).itemsize), dtype=np.uint8).view(
        element
    )
    native = codec.transpose(array)
    assert native.flags.c_contiguous and native.shape == shape[::-1]
    np.testing.assert_array_equal(native.view(np.uint8), np.ascontiguousarray(array.T).view(np.uint8))


@pytest.mark.parametrize("down", [1, 3, 4, 9])
@pytest.mark.parametrize("kind", [HALF, BYTES])
def test_tiles(kind: str, down: int, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = RNG.integers(-8, 8, (down, 2, 1024), dtype=np.int8)
    native = unpack.place_tiles(runs, _rows_order(kind), 64, 16)
    expected = numpy_only(monkeypatch, unpack.place_tiles, runs, _rows_order(kind), 64, 16)
    assert native.dtype == np.int8
    np.testing.assert_array_equal(native, expected)


@pytest.mark.parametrize("kind", [TYPES[i] for i in sorted(codec.BLOCK_TYPES)], ids=lambda kind: kind.name)
def test_blocks(kind: GgufType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Random bytes: every value of every field, also those that no writer leaves (they are equal as bits)."""
    raw = RNG.integers(0, 256, (13, kind.row_bytes(3 * kind.block)), dtype=np.uint8).reshape(-1)
    native = gguf.decode(kind, raw, 13, 3 * kind.block)
    expected = numpy_only(monkeypatch, gguf.decode, kind, raw, 13, 3 * kind.block)
    for role, part in native.parts.items():
        np.testing.assert_array_equal(part.view(np.uint8), expected.parts[role].view(np.uint8), role)


@pytest.mark.parametrize("order", [(), AWQ_ORDER, (1, 0)], ids=str)
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_codes_across(bits: int, order: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    words = RNG.integers(0, 1 << 32, (37, 6 * bits), dtype=np.uint32)
    native = unpack.unpack_across(words, bits, 192, order)
    expected = numpy_only(monkeypatch, unpack.unpack_across, words, bits, 192, order)
    assert native.shape == (192, 37)
    np.testing.assert_array_equal(native, expected)


@pytest.fixture
def rows_of_96(tmp_path: Path) -> tuple[CheckedFile, Array]:
    rows = RNG.integers(0, 256, (5000, 96), dtype=np.uint8)
    (tmp_path / "rows").write_bytes(b"head" + rows.tobytes())
    return CheckedFile(tmp_path / "rows"), rows


def test_columns_of_a_file(rows_of_96: tuple[CheckedFile, Array], monkeypatch: pytest.MonkeyPatch) -> None:
    file, rows = rows_of_96
    monkeypatch.setattr(file, "_fill", None)  # by the map alone
    for first, width in ((0, 8), (7, 1), (90, 6), (40, 47)):
        found = file.read_columns(4 + first, width, 96, 5000, "tensor 'x'")
        np.testing.assert_array_equal(found, rows[:, first : first + width])


def test_columns_without_the_library(
    rows_of_96: tuple[CheckedFile, Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(codec, "available", lambda: False)
    file, rows = rows_of_96
    assert file._map is None
    np.testing.assert_array_equal(file.read_columns(4 + 7, 9, 96, 5000, "tensor 'x'"), rows[:, 7:16])


def test_a_file_that_shrinks_under_its_map_is_an_error(
    rows_of_96: tuple[CheckedFile, Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the check and the copy: the pages behind the end raise SIGBUS, which ends the copy and not the process."""
    file, _ = rows_of_96
    assert file._map is not None
    monkeypatch.setattr(CheckedFile, "_check_unchanged", lambda self, what: None)
    os.truncate(file.path, 96 * 2000)
    out = np.empty((5000, 8), np.uint8)
    assert not codec.copy_columns(file._map, 0, 96, out)
    for _ in range(2):  # the second time, too: the signal is not left blocked
        with pytest.raises(CheckpointError, match="ended at byte 192000 while tensor 'x' was read"):
            file.read_columns(0, 8, 96, 5000, "tensor 'x'")


def test_a_bus_error_elsewhere_still_ends_the_process(rows_of_96: tuple[CheckedFile, Array]) -> None:
    code = """
import mmap, os, sys
import numpy as np
from fewbit import codec
file = open(sys.argv[1], "r+b")
mapped = np.frombuffer(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ), np.uint8)
assert codec.copy_columns(mapped, 0, 96, np.empty((9, 8), np.uint8))
os.truncate(sys.argv[1], 0)
print(int(mapped[-1]))
"""
    command = [sys.executable, "-c", code, str(rows_of_96[0].path)]
    done = subprocess.run(command, capture_output=True, env=cli_environment())
    assert done.returncode == -signal.SIGBUS
