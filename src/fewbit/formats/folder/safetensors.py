"""The safetensors container: a JSON header, then tensor data without holes. Checked whole before any tensor is read.

header length u64 | header JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {...}} | data
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np

from fewbit.formats.files import CheckedFile
from fewbit.formats.strict_json import parse
from fewbit.schemes.arrays import Array, array_dtype
from fewbit.spec import dtype
from fewbit.spec.dtype import DType
from fewbit.spec.refusal import CheckpointError

MAX_HEADER_BYTES = 100_000_000  # the format's own limit
MAX_DIMS = 8
MAX_ELEMS = 1 << 62
DTYPES: dict[str, DType] = {
    "F64": dtype.F64, "F32": dtype.F32, "F16": dtype.F16, "BF16": dtype.BF16,
    "F8_E4M3": dtype.E4M3, "F8_E5M2": dtype.E5M2, "F8_E8M0": dtype.E8M0, "F8_E4M3FNUZ": dtype.E4M3FNUZ,
    "F8_E5M2FNUZ": dtype.E5M2FNUZ, "F6_E2M3": dtype.E2M3, "F6_E3M2": dtype.E3M2, "F4": dtype.E2M1,
    "I64": dtype.I64, "I32": dtype.I32, "I16": dtype.I16, "I8": dtype.I8, "U64": dtype.U64, "U32": dtype.U32,
    "U16": dtype.U16, "U8": dtype.U8, "BOOL": dtype.U8,
}  # fmt: skip
UNREADABLE = frozenset({"C64"})
PLAIN = ("F32", "F16", "BF16")


@dataclass(frozen=True, slots=True)
class DiskTensor:
    """A tensor as written. `start` counts from the beginning of `file`; `kind` is the container's own name of the type.

    Arrays come in the type that canonical parts use (bf16 as uint16, FP8 as uint8); types below 8 bits come as the bytes of
    a row, uint8 [rows, bytes].
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    start: int
    bytes: int
    file: CheckedFile = field(repr=False)
    index: tuple[int, ...] = ()  # of a tensor that `at` cut out of the stored one

    @property
    def dtype(self) -> DType:
        return DTYPES[self.kind]

    @property
    def is_plain(self) -> bool:
        return self.kind in PLAIN

    def __str__(self) -> str:
        at = f" at {list(self.index)}" if self.index else ""
        return f"{self.name!r}{at} ({self.kind} {list(self.shape)})"

    def rows(self, start: int, stop: int) -> Array:
        """[stop - start, ...]: along the first dimension."""
        step = self.bytes // self.shape[0]
        raw = self.file.read(self.start + start * step, (stop - start) * step, f"tensor {self.name!r}")
        return self._view(raw, (stop - start, *self.shape[1:]))

    def columns(self, start: int, stop: int) -> Array:
        """[rows, stop - start] of a matrix whose type has whole bytes."""
        count, columns = self.shape
        if start == stop:
            return np.empty((count, 0), array_dtype(self.dtype))
        size = self.dtype.bits // 8
        raw = self.file.read_columns(
            self.start + start * size, (stop - start) * size, columns * size, count, f"tensor {self.name!r}"
        )
        return self._view(raw, (count, stop - start))

    def whole(self) -> Array:
        return self._view(self.file.read(self.start, self.bytes, f"tensor {self.name!r}"), self.shape)

    def at(self, index: int) -> DiskTensor:
        """One of the tensors stacked along the first dimension, such as an expert."""
        step = self.bytes // self.shape[0]
        return replace(
            self,
            shape=self.shape[1:],
            start=self.start + index * step,
            bytes=step,
            index=(*self.index, index),
        )

    def _view(self, raw: Array, shape: tuple[int, ...]) -> Array:
        if self.dtype.bits < 8:
            shape = (*shape[:-1], -1)
        view: Array = raw.reshape(-1).view(array_dtype(self.dtype)).reshape(shape)
        return view


def read_header(file: CheckedFile) -> dict[str, DiskTensor]:
    def fail(message: str) -> NoReturn:
        raise CheckpointError(f"{file.path}: {message}")

    header, data_start = _parse_header(file, fail)
    data_bytes = file.size - data_start
    tensors: dict[str, DiskTensor] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            if not isinstance(entry, dict) or not all(isinstance(value, str) for value in entry.values()):
                fail("'__metadata__' is not an object of strings; it is corrupt")
            continue
        tensors[name] = _tensor(fail, name, entry, data_start, data_bytes, file)
    _check_cover(fail, tensors, data_start, data_bytes)
    return tensors


def _parse_header(file: CheckedFile, fail: Callable[[str], NoReturn]) -> tuple[dict[str, Any], int]:
    """The header and where the data begins."""
    if file.size < 8:
        fail(
            f"has {file.size} bytes, expected at least the 8 of a safetensors header length; it is truncated"
        )
    length = int.from_bytes(file.read(0, 8, "header length").tobytes(), "little")
    if length > MAX_HEADER_BYTES:
        fail(
            f"safetensors header length is {length}, expected at most {MAX_HEADER_BYTES}; it is not a safetensors file"
        )
    if length + 8 > file.size:
        fail(
            f"safetensors header needs {length} bytes, but only {file.size - 8} follow; it is truncated, fetch it again"
        )
    raw = file.read(8, length, "safetensors header").tobytes()
    if raw[:1] != b"{":
        fail(f"safetensors header begins with {raw[:1]!r}, expected b'{{'; it is not a safetensors file")
    header: dict[str, Any] = parse(raw, f"{file.path}: safetensors header")
    return header, 8 + length


def read_metadata(file: CheckedFile) -> dict[str, str]:
    """The strings that a writer left in the header, of a file whose header was read before."""

    def fail(message: str) -> NoReturn:
        raise CheckpointError(f"{file.path}: {message}")

    found: dict[str, str] = _parse_header(file, fail)[0].get("__metadata__", {})
    return found


def _tensor(
    fail: Any, name: str, entry: Any, data_start: int, data_bytes: int, file: CheckedFile
) -> DiskTensor:
    if not name or len(name) > 1024:
        fail(f"a tensor has a name of {len(name)} characters, expected 1 to 1024; it is corrupt")
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        keys = sorted(entry) if isinstance(entry, dict) else type(entry).__name__
        fail(f"tensor {name!r} is described by {keys}, expected dtype, shape and data_offsets; it is corrupt")
    kind, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(kind, str) or kind not in DTYPES:
        if isinstance(kind, str) and kind in UNREADABLE:
            fail(f"tensor {name!r} has dtype {kind}, which no model has; expected one of {', '.join(DTYPES)}")
        fail(
            f"tensor {name!r} has the unknown dtype {kind!r}, expected one of {', '.join(DTYPES)}; it is corrupt"
        )
    if not _whole(shape) or len(shape) > MAX_DIMS:
        fail(
            f"tensor {name!r} has shape {str(shape)[:80]}, expected up to {MAX_DIMS} whole numbers; it is corrupt"
        )
    if not _whole(offsets) or len(offsets) != 2 or not offsets[0] <= offsets[1] <= data_bytes:
        fail(
            f"tensor {name!r} has data offsets {str(offsets)[:80]}, expected begin and end within the {data_bytes} bytes of data; "
            "the file is truncated or corrupt, fetch it again"
        )
    elems = 1
    for extent in shape:
        elems *= extent
    if not 0 < elems <= MAX_ELEMS:
        fail(f"tensor {name!r} has shape {shape}, that is {elems} elements, expected 1 to 2^62")
    bits = elems * DTYPES[kind].bits
    if bits % 8:
        fail(f"tensor {name!r} ({kind} {shape}) takes {bits} bits, expected whole bytes; it is corrupt")
    needed = bits // 8
    if offsets[1] - offsets[0] != needed:
        fail(
            f"tensor {name!r} ({kind} {shape}) needs {needed} bytes, but its data offsets give it {offsets[1] - offsets[0]}"
        )
    return DiskTensor(name, kind, tuple(shape), data_start + offsets[0], needed, file)


def _whole(values: Any) -> bool:
    return isinstance(values, list) and all(type(value) is int and 0 <= value < 1 << 63 for value in values)


def _check_cover(fail: Any, tensors: dict[str, DiskTensor], data_start: int, data_bytes: int) -> None:
    """Tensors lie one after the other, from the first byte of the data to the last: the format allows nothing else."""
    expected, before = data_start, "the header"
    for tensor in sorted(tensors.values(), key=lambda t: (t.start, t.bytes)):
        if tensor.start != expected:
            problem = "overlaps" if tensor.start < expected else "leaves a hole after"
            fail(
                f"tensor {tensor.name!r} {problem} {before} (begins at byte {tensor.start}, expected {expected}); it is corrupt"
            )
        expected, before = tensor.start + tensor.bytes, f"tensor {tensor.name!r}"
    if expected != data_start + data_bytes:
        fail(f"has {data_start + data_bytes - expected} bytes after {before}, expected none; it is corrupt")
