"""JSON from files that anyone may have written: no duplicate keys, no NaN, bounded depth and size."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fewbit.formats.files import CheckedFile
from fewbit.spec.refusal import CheckpointError

_SURROGATE = re.compile(rb"\\u[dD][89a-fA-F]")


def parse(raw: bytes, where: str) -> Any:
    """`where` names file and part. Every way in which JSON can be bad becomes a CheckpointError."""

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            raise CheckpointError(
                f"{where}: key {twice!r} occurs twice in one object, so its value is ambiguous"
            )
        return out

    def no_constant(text: str) -> Any:
        raise CheckpointError(f"{where}: holds {text}, which is not JSON")

    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=unique, parse_constant=no_constant)
        if _SURROGATE.search(raw):  # a pair of them is one character, a lone one is none
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeEncodeError as error:
        code = ord(error.object[error.start])
        raise CheckpointError(
            f"{where}: holds the escape \\u{code:04x}, half a character; it is corrupt"
        ) from None
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{where}: is not valid UTF-8 at byte {error.start}; it is corrupt") from None
    except RecursionError:
        raise CheckpointError(f"{where}: is nested too deeply to be real; it is corrupt") from None
    except ValueError as error:
        raise CheckpointError(f"{where}: is not valid JSON ({error}); it is truncated or corrupt") from None


def read_object(path: Path, limit_bytes: int) -> dict[str, Any]:
    """The file as one JSON object."""
    file = CheckedFile(path)
    try:
        if file.size > limit_bytes:
            raise CheckpointError(
                f"{path}: has {file.size} bytes, expected at most {limit_bytes}; it is not what its name says"
            )
        value = parse(file.read(0, file.size, "the file").tobytes(), str(path))
    finally:
        file.close()
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: is a JSON {type(value).__name__}, expected an object")
    return value
