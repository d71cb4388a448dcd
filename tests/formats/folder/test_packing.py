"""Bit streams of every width against whole numbers, word borders included, and each pack against its unpack."""

from __future__ import annotations

import numpy as np
import pytest

from fewbit.formats.folder.packing import (
    AWQ_ORDER,
    add_to_words,
    from_order,
    pack_bits,
    pack_planes,
    sign_extend,
    signed,
    to_order,
    unpack_bits,
    unpack_planes,
)


@pytest.mark.parametrize("word", [np.uint8, np.uint16, np.uint32, np.uint64])
@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("count", [1, 7, 8, 31, 32, 33, 96, 100])
def test_a_stream_is_one_large_number(bits: int, count: int, word: type) -> None:
    codes = np.random.default_rng(count).integers(0, 1 << bits, (3, count)).astype(np.uint8)
    words = pack_bits(codes, bits, word)
    width = np.dtype(word).itemsize
    assert words.shape == (3, -(-count * bits // (8 * width)))
    for row in range(3):
        number = sum(int(code) << (bits * i) for i, code in enumerate(codes[row]))
        assert words[row].tobytes() == number.to_bytes(words.shape[1] * width, "little")
    assert np.array_equal(unpack_bits(words, bits, count), codes)


@pytest.mark.parametrize("planes", [(2, 1), (4, 1), (4, 2), (4, 2, 1)])
def test_planes(planes: tuple[int, ...]) -> None:
    bits = sum(planes)
    codes = np.random.default_rng(0).integers(0, 1 << bits, (5, 96)).astype(np.uint8)
    words = pack_planes(codes, planes)
    assert words.shape == (5, 3 * bits)
    assert np.array_equal(unpack_planes(words, planes, 96), codes)
    assert words[0, 0] == sum(int(code & ((1 << planes[0]) - 1)) << (planes[0] * i) for i, code in enumerate(codes[0, : 32 // planes[0]]))  # fmt: skip


def test_the_order_of_awq() -> None:
    """Nibbles of a word, low first, hold columns 0 2 4 6 1 3 5 7."""
    columns = np.arange(16, dtype=np.uint8)
    stored = to_order(columns, AWQ_ORDER)
    assert stored[:8].tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert np.array_equal(from_order(stored, AWQ_ORDER), columns)


@pytest.mark.parametrize("bits", [2, 4, 8])
def test_whole_words_carry_as_the_writers_let_them_borrow(bits: int) -> None:
    fields = 32 // bits
    for zeros in ([0] * fields, [0, 1] * (fields // 2), [(1 << bits) - 1] * fields):
        words = pack_bits(np.array([zeros], np.uint8), bits).view(np.int32)
        stored = add_to_words(words, bits, -1)
        assert stored.dtype == np.int32
        assert np.array_equal(add_to_words(stored, bits, 1), words)
    once = add_to_words(pack_bits(np.array([[0] * fields], np.uint8), bits).view(np.int32), bits, -1)
    by_field = (unpack_bits(once, bits, fields) + 1) & ((1 << bits) - 1)
    assert by_field.any()  # the mistake that the whole word avoids: a field by itself does not come back to 0


def test_signs() -> None:
    codes = np.arange(16, dtype=np.uint8)
    assert signed(codes, 4).tolist() == list(range(-8, 8))
    assert sign_extend(codes, 4).tolist() == [*range(8), *range(-8, 0)]
    assert sign_extend(np.arange(256, dtype=np.uint8), 8).tolist() == [*range(128), *range(-128, 0)]
