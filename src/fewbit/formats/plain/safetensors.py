"""The safetensors container: a JSON header, then tensor data without holes. Checked whole before any tensor is read.

header length u64 | header JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, "__metadata__": {...}} | data
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from fewbit.formats.files import CheckedFile
from fewbit.formats.strict_json import parse
from fewbit.schemes.plain import scheme as plain
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import Scheme

MAX_HEADER_BYTES = 100_000_000  # the format's own limit
MAX_DIMS = 8
MAX_ELEMS = 1 << 62
SCHEMES: dict[str, Scheme] = {"F32": plain.F32, "F16": plain.F16, "BF16": plain.BF16}
OTHER_DTYPES = frozenset({
    "BOOL", "U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64", "F64", "C64", "F4", "F6_E2M3", "F6_E3M2",
    "F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class DiskTensor:
    """`start` counts from the beginning of the file."""

    name: str
    scheme: Scheme
    shape: tuple[int, ...]
    start: int
    bytes: int


def read_header(file: CheckedFile) -> dict[str, DiskTensor]:
    def fail(message: str) -> NoReturn:
        raise CheckpointError(f"{file.path}: {message}")

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
    header = parse(raw, f"{file.path}: safetensors header")
    data_start, data_bytes = 8 + length, file.size - 8 - length
    tensors: dict[str, DiskTensor] = {}
    for name, entry in header.items():
        if name == "__metadata__":
            if not isinstance(entry, dict) or not all(isinstance(value, str) for value in entry.values()):
                fail("'__metadata__' is not an object of strings; it is corrupt")
            continue
        tensors[name] = _tensor(fail, name, entry, data_start, data_bytes)
    _check_cover(fail, tensors, data_start, data_bytes)
    return tensors


def _tensor(fail: Any, name: str, entry: Any, data_start: int, data_bytes: int) -> DiskTensor:
    if not name or len(name) > 1024:
        fail(f"a tensor has a name of {len(name)} characters, expected 1 to 1024; it is corrupt")
    if not isinstance(entry, dict) or entry.keys() != {"dtype", "shape", "data_offsets"}:
        keys = sorted(entry) if isinstance(entry, dict) else type(entry).__name__
        fail(f"tensor {name!r} is described by {keys}, expected dtype, shape and data_offsets; it is corrupt")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or dtype not in SCHEMES:
        if isinstance(dtype, str) and dtype in OTHER_DTYPES:
            fail(
                f"tensor {name!r} has dtype {dtype}, expected {', '.join(SCHEMES)}; quantized folders are not supported yet"
            )
        fail(f"tensor {name!r} has the unknown dtype {dtype!r}, expected {', '.join(SCHEMES)}; it is corrupt")
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
    scheme = SCHEMES[dtype]
    needed = elems * scheme.codes.bits // 8
    if offsets[1] - offsets[0] != needed:
        fail(
            f"tensor {name!r} ({dtype} {shape}) needs {needed} bytes, but its data offsets give it {offsets[1] - offsets[0]}"
        )
    return DiskTensor(name, scheme, tuple(shape), data_start + offsets[0], needed)


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
