"""Metadata values of a GGUF header: twelve scalar types, and arrays of one of them."""

from __future__ import annotations

import numpy as np

from fewbit.formats.gguf.cursor import Cursor, StringArray
from fewbit.schemes.arrays import Array

Value = bool | int | float | str | StringArray | Array

BOOL, STRING, ARRAY = 7, 8, 9
NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    10: "Q",
    11: "q",
    12: "d",
}  # type id: struct code
NAMES = {
    0: "u8", 1: "i8", 2: "u16", 3: "i16", 4: "u32", 5: "i32", 6: "f32", 7: "bool", 8: "string", 9: "array",
    10: "u64", 11: "i64", 12: "f64",
}  # fmt: skip
LEAST_ENTRY_BYTES = 8 + 1 + 4 + 1  # a key of one byte, its value's type, a value of one byte


def read_metadata(cursor: Cursor, count: int) -> dict[str, Value]:
    values: dict[str, Value] = {}
    for index in range(count):
        key = cursor.string(f"metadata key {index}")
        if not key or len(key) > 65535:
            cursor.fail(f"metadata key {index} has {len(key)} characters, expected 1 to 65535; it is corrupt")
        if key in values:
            cursor.fail(f"metadata key {key!r} occurs twice, so its value is ambiguous; write the file again")
        values[key] = _value(cursor, int(cursor.number("I", f"type of metadata key {key!r}")), key)
    return values


def _value(cursor: Cursor, kind: int, key: str) -> Value:
    what = f"value of metadata key {key!r}"
    if kind in NUMBERS:
        return cursor.number(NUMBERS[kind], what)
    if kind == BOOL:
        return _bool(cursor, int(cursor.number("B", what)), key)
    if kind == STRING:
        return cursor.string(what)
    if kind != ARRAY:
        cursor.fail(f"metadata key {key!r} has value type {kind}, expected one of 0 to 12; it is corrupt")
    kind = int(cursor.number("I", f"element type of metadata key {key!r}"))
    if kind == ARRAY:
        cursor.fail(
            f"metadata key {key!r} is an array of arrays, which no model uses and fewbit does not read"
        )
    if kind == STRING:
        return cursor.strings(cursor.count(f"element count of metadata key {key!r}", 8), what)
    if kind != BOOL and kind not in NUMBERS:
        cursor.fail(
            f"metadata key {key!r} is an array of type {kind}, expected one of 0 to 12; it is corrupt"
        )
    element = np.dtype("<" + NUMBERS.get(kind, "B"))
    items = cursor.count(f"element count of metadata key {key!r}", element.itemsize)
    array: Array = cursor.array(items, element.itemsize, what).view(element)
    if kind == BOOL:
        if array.size and array.max() > 1:
            _bool(cursor, int(array.max()), key)
        return array.view(np.bool_)
    return array


def _bool(cursor: Cursor, byte: int, key: str) -> bool:
    if byte > 1:
        cursor.fail(f"metadata key {key!r} holds the byte {byte} as a bool, expected 0 or 1; it is corrupt")
    return byte == 1
