"""The GGUF container: header, metadata, tensor infos. Everything is checked here, before any tensor is read.

magic "GGUF" | version u32 | tensor count u64 | metadata count u64 | metadata | tensor infos | padding | tensor data
tensor info: name | n_dims u32 | extents u64[n_dims], the contiguous one first | type u32 | offset u64 into the data
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from fewbit.formats.files import CheckedFile
from fewbit.formats.gguf.cursor import Cursor
from fewbit.formats.gguf.metadata import LEAST_ENTRY_BYTES, Value, read_metadata
from fewbit.formats.gguf.types import TYPES, UNSUPPORTED, GgufType

VERSIONS = (2, 3)
MAX_DIMS = 4
MAX_ELEMS = 1 << 62
DEFAULT_ALIGNMENT = 32
LEAST_INFO_BYTES = 8 + 1 + 4 + 8 + 4 + 8


@dataclass(frozen=True, slots=True)
class DiskTensor:
    """`shape` is in row-major order (the file's extents reversed); `start` counts from the beginning of `file`."""

    name: str
    kind: GgufType
    shape: tuple[int, ...]
    start: int
    bytes: int
    file: CheckedFile

    def at(self, index: int) -> DiskTensor:
        """One of a stack of tensors."""
        count = self.bytes // self.shape[0]
        return replace(self, shape=self.shape[1:], start=self.start + index * count, bytes=count)


@dataclass(frozen=True, slots=True)
class Container:
    version: int
    alignment: int
    metadata: dict[str, Value]
    tensors: dict[str, DiskTensor]


def read_container(file: CheckedFile) -> Container:
    cursor = Cursor(file)
    version = _version(cursor)
    tensor_count = cursor.count("tensor count", LEAST_INFO_BYTES)
    metadata_count = cursor.count("metadata count", LEAST_ENTRY_BYTES)
    metadata = read_metadata(cursor, metadata_count)
    alignment = _alignment(cursor, metadata)
    infos = [_tensor_info(cursor, index) for index in range(tensor_count)]
    data_start = -(-cursor.position // alignment) * alignment
    tensors: dict[str, DiskTensor] = {}
    for name, kind, shape, offset in infos:
        if name in tensors:
            cursor.fail(f"tensor {name!r} occurs twice; write the file again")
        tensors[name] = _place(cursor, file, data_start, alignment, name, kind, shape, offset)
    _check_overlaps(cursor, tensors)
    return Container(version, alignment, metadata, tensors)


def _version(cursor: Cursor) -> int:
    magic = cursor.take(4, "magic")
    if magic != b"GGUF":
        cursor.fail(f"begins with {magic!r}, expected the magic b'GGUF'; it is not a GGUF file")
    version = int(cursor.number("I", "version"))
    if version not in VERSIONS:
        if int.from_bytes(version.to_bytes(4, "little"), "big") in (1, *VERSIONS):
            cursor.fail("is a big-endian GGUF file, which fewbit does not read; convert it to little-endian")
        cursor.fail(
            f"has GGUF version {version}, expected 2 or 3; convert the model again with current tools"
        )
    return version


def _alignment(cursor: Cursor, metadata: dict[str, Value]) -> int:
    value = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
    if not isinstance(value, int) or isinstance(value, bool) or value <= 0 or value & (value - 1):
        cursor.fail(f"metadata key 'general.alignment' is {value!r}, expected a power of two; it is corrupt")
    return value


def _tensor_info(cursor: Cursor, index: int) -> tuple[str, GgufType, tuple[int, ...], int]:
    name = cursor.string(f"name of tensor {index}")
    if not name or len(name) > 255:
        cursor.fail(f"tensor {index} has a name of {len(name)} characters, expected 1 to 255; it is corrupt")
    dims = int(cursor.number("I", f"dimension count of tensor {name!r}"))
    if not 1 <= dims <= MAX_DIMS:
        cursor.fail(f"tensor {name!r} has {dims} dimensions, expected 1 to {MAX_DIMS}; it is corrupt")
    extents = tuple(int(cursor.number("Q", f"extents of tensor {name!r}")) for _ in range(dims))
    elems = 1
    for extent in extents:
        elems *= extent
    if not 0 < elems <= MAX_ELEMS:
        cursor.fail(
            f"tensor {name!r} has extents {list(extents)}, that is {elems} elements, expected 1 to 2^62"
        )
    kind_id = int(cursor.number("I", f"type of tensor {name!r}"))
    kind = TYPES.get(kind_id)
    if kind is None:
        known = ", ".join(t.name for t in TYPES.values())
        if kind_id in UNSUPPORTED:
            cursor.fail(
                f"tensor {name!r} has type {UNSUPPORTED[kind_id]}, which is not supported yet; supported: {known}"
            )
        cursor.fail(f"tensor {name!r} has the unknown type id {kind_id}; supported: {known}")
    if extents[0] % kind.block:
        cursor.fail(
            f"tensor {name!r} of type {kind.name} has rows of {extents[0]} elements, expected a multiple of the block of "
            f"{kind.block}; it is corrupt"
        )
    return name, kind, extents[::-1], int(cursor.number("Q", f"offset of tensor {name!r}"))


def _place(
    cursor: Cursor,
    file: CheckedFile,
    data_start: int,
    alignment: int,
    name: str,
    kind: GgufType,
    shape: tuple[int, ...],
    offset: int,
) -> DiskTensor:
    count = kind.row_bytes(shape[-1])
    for extent in shape[:-1]:
        count *= extent
    if offset % alignment:
        cursor.fail(
            f"tensor {name!r} begins at data offset {offset}, expected a multiple of the alignment {alignment}"
        )
    start, size = data_start + offset, file.size
    if start + count > size:
        cursor.fail(
            f"tensor {name!r} ({kind.name} {list(shape)}) takes bytes {start} to {start + count}, but the file has {size}; "
            "it is truncated or corrupt, fetch it again"
        )
    return DiskTensor(name, kind, shape, start, count, file)


def _check_overlaps(cursor: Cursor, tensors: dict[str, DiskTensor]) -> None:
    ordered = sorted(tensors.values(), key=lambda t: (t.start, t.bytes))
    for left, right in pairwise(ordered):
        if left.start + left.bytes > right.start:
            cursor.fail(
                f"tensors {left.name!r} (bytes {left.start} to {left.start + left.bytes}) and {right.name!r} (from byte "
                f"{right.start}) overlap; the file is corrupt"
            )
