"""What replaces good values: numbers at the edges, values of every type, bytes that mean something; and changes of plain bytes."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random
from typing import Any

Make = Callable[[Random], bytes]

NUMBERS = (
    0, 1, -1, 2, 3, 7, 8, 16, 31, 32, 33, 48, 64, 127, 128, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32,
    1 << 40, 1 << 60, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, 1 << 64, -(1 << 63), 10**30,
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    *NUMBERS, 0.0, -0.0, 0.5, 1e-40, 1e308, -1e308, None, True, False, "", "x", "0", "4", "int4", "e4m3", "../x", "re:(", "re:.*", "\ud800",
    "x" * 4000, "\x00", [], {}, [[]], [1, 2], ["x"], {"x": 1}, [1] * 100, [[[[[[]]]]]], {"": {}},
)  # fmt: skip
TEXTS = (
    b"0",
    b"-",
    b'"',
    b"[",
    b"]",
    b"{",
    b"}",
    b",",
    b":",
    b"null",
    b"true",
    b"NaN",
    b"1e999",
    b"9" * 30,
    b"\\u0000",
    b"\xff",
    b"[" * 2000,
)
PATTERNS = (
    b"\x00",
    b"\xff",
    b"\x7f",
    b"\x80",
    b"\x7e",
    b"\xc0\x7f",
    b"\x00\x7c",
    b"\x80\x7f",
    b"\x00\x00\xc0\x7f",
)  # NaN and Inf among them
CHANGES = 3  # at most, of one input


def raw(random: Random, data: bytes) -> bytes:
    """Bytes replaced, inserted, cut out, or cut off; mostly near the front, where the structure is."""
    for _ in range(random.randint(1, CHANGES)):
        at = random.randrange(min(len(data), random.choice((64, 2048, len(data)))) + 1)
        new = random.choice((
            random.randbytes(random.randint(1, 8)), struct.pack("<Q", random.choice(NUMBERS) & (1 << 64) - 1),
            struct.pack("<I", random.choice(NUMBERS) & 0xFFFFFFFF), random.choice(TEXTS), random.choice(PATTERNS),
        ))  # fmt: skip
        match random.randrange(8):
            case 0:
                data = data[:at]
            case 1 | 2:
                data = data[:at] + data[at + len(new) :]
            case 3 | 4:
                data = data[:at] + new + data[at:]
            case _:
                data = data[:at] + new + data[at + len(new) :]
        if not data:
            return b""
    return data


def other_bytes(random: Random, raw_bytes: bytes) -> bytes:
    if not raw_bytes:
        return raw_bytes
    match random.randrange(4):
        case 0:
            return random.randbytes(len(raw_bytes))
        case 1:
            pattern = random.choice(PATTERNS)
            return (pattern * (len(raw_bytes) // len(pattern) + 1))[: len(raw_bytes)]
        case 2:  # a text that a tensor holds
            return raw(random, raw_bytes)[: len(raw_bytes)].ljust(len(raw_bytes), b" ")
        case _:
            at = random.randrange(len(raw_bytes))
            new = random.choice(PATTERNS)[: len(raw_bytes) - at]
            return raw_bytes[:at] + new + raw_bytes[at + len(new) :]
