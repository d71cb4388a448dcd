"""SentencePiece's table of characters, checked whole: the library that walks it trusts every index in it.

bytes of the trie u32 | trie u32[] (an XOR-compressed double array) | replacements, each UTF-8 text ended by a zero byte

A unit of the trie holds a label (bits 0-7, and bit 31), whether text may end here (bit 8), and an offset (bits 10-30, eight
bits higher where bit 9 is set); the unit behind an end holds the place of its replacement instead (bits 0-30).
"""

from __future__ import annotations

import numpy as np

from fewbit.formats.gguf.config import Reader
from fewbit.formats.gguf.vocabulary import PREFIX
from fewbit.schemes.arrays import Array

KEY = PREFIX + "precompiled_charsmap"
BYTES = np.arange(1, 256, dtype=np.uint32)
AT_ONCE = 1 << 12  # trie positions, 255 children each


def check_charsmap(reader: Reader, raw: bytes) -> None:
    """Fails naming what is wrong: afterwards no walk leaves the trie or the replacements, or cuts a character."""
    size = int.from_bytes(raw[:4], "little")
    if len(raw) < 4 or size % 4 or size < 4 or 4 + size >= len(raw):
        reader.fail(
            f"metadata key {KEY!r} has {len(raw)} bytes, too few for its trie of {size}; it is corrupt"
        )
    trie, texts = np.frombuffer(raw, "<u4", size // 4, 4), raw[4 + size :]
    try:
        texts.decode()
    except UnicodeDecodeError:
        reader.fail(f"metadata key {KEY!r} has replacements that are no UTF-8; it is corrupt")
    if texts[-1]:
        reader.fail(f"metadata key {KEY!r} has a replacement without an end; it is corrupt")
    starts = np.frombuffer(texts, np.uint8) & 0xC0 != 0x80  # where characters begin
    places = _places(reader, trie)
    if places.size and (places.max() >= len(texts) or not starts[places].all()):
        reader.fail(
            f"metadata key {KEY!r} points out of its replacements, or into a character; it is corrupt"
        )


def _places(reader: Reader, trie: Array) -> Array:
    """Where the replacements lie that any text can reach."""
    seen = np.zeros(len(trie), np.bool_)
    found: list[Array] = []
    frontier = _offsets(trie[:1])
    while frontier.size:
        now, frontier = frontier[:AT_ONCE], frontier[AT_ONCE:]
        children = now[:, None] ^ BYTES
        if children.max() >= len(trie):
            reader.fail(f"metadata key {KEY!r} has a trie that points out of itself; it is corrupt")
        units = trie[children]
        new = np.unique(children[units & np.uint32(0x800000FF) == BYTES])
        new = new[~seen[new]]
        seen[new] = True
        below = new ^ _offsets(trie[new])
        ends = below[trie[new] >> np.uint32(8) & np.uint32(1) == 1]
        if ends.size and ends.max() >= len(trie):
            reader.fail(f"metadata key {KEY!r} has a trie that points out of itself; it is corrupt")
        found.append(trie[ends] & np.uint32(0x7FFFFFFF))
        frontier = np.concatenate([frontier, below])
    return np.concatenate(found) if found else np.empty(0, np.uint32)


def _offsets(units: Array) -> Array:
    shift = (units & np.uint32(1 << 9)) >> np.uint32(6)
    offsets: Array = (units >> np.uint32(10)) << shift
    return offsets
