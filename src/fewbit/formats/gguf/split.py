"""A model in several files: `NAME-00001-of-0000N.gguf` and so on. The first holds the metadata, each its own tensors.

split.count  how many files    split.no  which one, from 0    split.tensors.count  of all files together
"""

from __future__ import annotations

import re
from pathlib import Path

from fewbit.formats.files import CheckedFile
from fewbit.formats.gguf.config import Reader
from fewbit.formats.gguf.container import Container, DiskTensor, read_container

MAX_PARTS = 99999  # five digits in the name
_NAME = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf", re.DOTALL)


def open_parts(path: Path, opened: list[CheckedFile]) -> tuple[Reader, dict[str, DiskTensor]]:
    """Metadata and the tensors of all parts. Every file is appended to `opened`, which the caller closes."""
    first = _open(path, opened)
    reader = Reader(str(path), first.metadata)
    count = reader.get("split.count", "float") or 0
    if count in (0, 1):
        return reader, first.tensors
    tensors = dict(first.tensors)
    for index, part in enumerate(_names(reader, path, count)):
        if index == 0:
            continue
        if not part.exists():
            reader.fail(f"is the first of {count} parts, and part {part.name} is not beside it; fetch it too")
        container = _open(part, opened)
        _check_part(reader, Reader(str(part), container.metadata), index, count)
        for name, tensor in container.tensors.items():
            if name in tensors:
                reader.fail(
                    f"tensor {name!r} is both in {tensors[name].file.path.name} and in {part.name}; the parts are of "
                    "different models, fetch them again"
                )
            tensors[name] = tensor
    total = reader.get("split.tensors.count", "float")
    if total is not None and total != len(tensors):
        reader.fail(
            f"metadata key 'split.tensors.count' is {total}, but the {count} parts hold {len(tensors)} tensors; "
            "they are of different models, fetch them again"
        )
    return reader, tensors


def _open(path: Path, opened: list[CheckedFile]) -> Container:
    file = CheckedFile(path)
    opened.append(file)
    return read_container(file)


def _names(reader: Reader, path: Path, count: object) -> list[Path]:
    """The paths of all parts, the first one being `path`."""
    if not isinstance(count, int) or not 1 < count <= MAX_PARTS:
        reader.fail(
            f"metadata key 'split.count' is {count!r}, expected a number of parts up to {MAX_PARTS}; it is corrupt"
        )
    number = reader.get("split.no", "float")
    if not isinstance(number, int) or not 0 <= number < count:
        reader.fail(
            f"is one of {count} parts, but metadata key 'split.no' is {number!r}, expected 0 to {count - 1}; it is corrupt"
        )
    match = _NAME.fullmatch(path.name)
    if match is None or (int(match[2]), int(match[3])) != (number + 1, count):
        reader.fail(
            f"is part {number + 1} of {count}, so its name must end in '-{number + 1:05}-of-{count:05}.gguf' for the "
            "others to be found; give the parts their names back"
        )
    if number:
        reader.fail(f"is part {number + 1} of {count}; give the first: {match[1]}-00001-of-{count:05}.gguf")
    return [path.with_name(f"{match[1]}-{i + 1:05}-of-{count:05}.gguf") for i in range(count)]


def _check_part(first: Reader, part: Reader, index: int, count: int) -> None:
    total = first.get("split.tensors.count", "float")
    for key, expected in (("split.no", index), ("split.count", count), ("split.tensors.count", total)):
        found = part.get(key, "float")
        if found != expected:
            part.fail(
                f"metadata key {key!r} is {found}, expected {expected} for part {index + 1} of {Path(first.where).name}; "
                "the parts are of different models, fetch them again"
            )
    others = sorted(key for key in part.values if not key.startswith(("split.", "general.")))
    if others:
        part.fail(
            f"metadata key {others[0]!r} stands in part {index + 1}, expected in the first part only; split the model again"
        )
