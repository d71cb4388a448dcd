"""The GGUF container, written: header, metadata and tensor infos as bytes. The exact inverse of `container` and `metadata`."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fewbit.formats.gguf.types import GgufType

VERSION, ALIGNMENT = 3, 32
_ARRAY_TYPES = {
    "u1": 0, "i1": 1, "u2": 2, "i2": 3, "u4": 4, "i4": 5, "f4": 6, "b1": 7, "u8": 10, "i8": 11, "f8": 12,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Entry:
    """A tensor to be written. `shape` is in row-major order; the file has its extents reversed."""

    name: str
    kind: GgufType
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        count = self.kind.row_bytes(self.shape[-1])
        for extent in self.shape[:-1]:
            count *= extent
        return count


def header_of(metadata: Mapping[str, Any], entries: Sequence[Entry]) -> tuple[bytes, list[int], int]:
    """All before the tensor data, where in the file each tensor begins, and the size of the file."""
    offsets, end = [], 0
    for entry in entries:
        offsets.append(aligned(end))
        end = offsets[-1] + entry.bytes
    out = [struct.pack("<4sIQQ", b"GGUF", VERSION, len(entries), len(metadata))]
    out += [string(key) + value(v) for key, v in metadata.items()]
    for entry, offset in zip(entries, offsets):
        extents = entry.shape[::-1]
        out.append(string(entry.name) + struct.pack(f"<I{len(extents)}Q", len(extents), *extents))
        out.append(struct.pack("<IQ", entry.kind.id, offset))
    header = b"".join(out)
    header += bytes(aligned(len(header)) - len(header))
    return header, [len(header) + offset for offset in offsets], len(header) + end


def aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def string(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(v: Any) -> bytes:
    """Type and value: whole numbers as u32 where they fit, floats as f32, lists as strings, arrays by their own type."""
    match v:
        case bool():
            return struct.pack("<IB", 7, v)
        case int() if 0 <= v < 1 << 32:
            return struct.pack("<II", 4, v)
        case int():
            return struct.pack("<Iq", 11, v)
        case float():
            return struct.pack("<If", 6, v)
        case str():
            return struct.pack("<I", 8) + string(v)
        case np.ndarray():
            return struct.pack("<IIQ", 9, _ARRAY_TYPES[v.dtype.str[1:]], v.size) + v.tobytes()
        case list():
            return struct.pack("<IIQ", 9, 8, len(v)) + b"".join(map(string, v))
    raise ValueError(f"GGUF metadata has no type for {v!r}")
