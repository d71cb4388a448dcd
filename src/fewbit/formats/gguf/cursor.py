"""Walking through a header whose lengths cannot be trusted: every step is checked against the file's end first."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NoReturn

from fewbit.formats.files import CheckedFile
from fewbit.schemes.arrays import Array
from fewbit.spec.refusal import CheckpointError

WINDOW_BYTES = 1 << 20
MAX_HEADER_BYTES = 256 << 20  # the largest known vocabularies need under 32 MiB

_U64 = struct.Struct("<Q")
_FORMS = {code: struct.Struct("<" + code) for code in "BbHhIiQqfd"}


@dataclass(frozen=True, slots=True)
class StringArray:
    """`raw` holds `count` strings, each after its u64 length; the lengths are checked, the UTF-8 is not yet."""

    raw: bytes
    count: int
    where: str

    def decode(self) -> list[str]:
        out: list[str] = []
        raw, at, unpack, append = self.raw, 0, _U64.unpack_from, out.append
        try:
            for _ in range(self.count):
                end = at + 8 + unpack(raw, at)[0]
                append(raw[at + 8 : end].decode("utf-8"))
                at = end
        except UnicodeDecodeError as error:
            raise CheckpointError(
                f"{self.where}[{len(out)}] is not valid UTF-8 at its byte {error.start}; it is corrupt"
            ) from None
        return out


class Cursor:
    """Little-endian reads from a position that only moves forward, through a window of the file."""

    def __init__(self, file: CheckedFile) -> None:
        self._file = file
        self._window = b""
        self._start = 0  # offset of the window in the file
        self.position = 0

    @property
    def remaining(self) -> int:
        return self._file.size - self.position

    def fail(self, message: str) -> NoReturn:
        raise CheckpointError(f"{self._file.path}: {message}")

    def take(self, count: int, what: str) -> bytes:
        at = self._need(count, what)
        self.position += count
        return self._window[at : at + count]

    def number(self, code: str, what: str) -> int | float:
        """One value of a struct code (B, h, Q, f, ...)."""
        form = _FORMS[code]
        value: int | float = form.unpack(self.take(form.size, what))[0]
        return value

    def count(self, what: str, least_bytes: int) -> int:
        """A u64 count of items that take at least `least_bytes` each; refused when they cannot fit the rest of the file."""
        value = int(self.number("Q", what))
        if value * least_bytes > self.remaining:
            self.fail(
                f"{what} is {value}, more than the {self.remaining} bytes left in the file can hold; it is corrupt"
            )
        return value

    def string(self, what: str) -> str:
        length = self.count(f"length of {what}", 1)
        try:
            return self.take(length, what).decode("utf-8")
        except UnicodeDecodeError as error:
            self.fail(f"{what} is not valid UTF-8 at its byte {error.start}; it is corrupt")

    def strings(self, count: int, what: str) -> StringArray:
        """Steps over `count` strings. Vocabularies hold hundreds of thousands, so nothing but lengths is looked at here."""
        start, seen, unpack = self.position, 0, _U64.unpack_from
        while seen < count:
            at = self._need(min(WINDOW_BYTES, self.remaining), what)
            window, end = self._window, len(self._window)
            while seen < count and at + 8 <= end:
                after = at + 8 + unpack(window, at)[0]
                if after > end:
                    break
                at, seen = after, seen + 1
            self.position = self._start + at
            if seen < count:  # one string that crosses the window's end, or runs out of the file
                self.take(self.count(f"length of {what}[{seen}]", 1), f"{what}[{seen}]")
                seen += 1
        raw = self._file.read(start, self.position - start, what).tobytes()
        return StringArray(raw, count, f"{self._file.path}: {what}")

    def array(self, count: int, item_bytes: int, what: str) -> Array:
        """uint8 [count * item_bytes], past the window."""
        self._bound(count * item_bytes, what)
        raw = self._file.read(self.position, count * item_bytes, what)
        self.position += count * item_bytes
        return raw

    def _bound(self, count: int, what: str) -> None:
        if count > self.remaining:
            self.fail(
                f"{what} needs {count} bytes at byte {self.position}, but only {self.remaining} are left; "
                "the file is truncated or corrupt, fetch it again"
            )
        if self.position + count > MAX_HEADER_BYTES:
            self.fail(
                f"{what} would make the header longer than {MAX_HEADER_BYTES >> 20} MiB, which no model needs; "
                "it is corrupt"
            )

    def _need(self, count: int, what: str) -> int:
        """Makes `count` bytes from the position available; returns where they begin in the window."""
        self._bound(count, what)
        at = self.position - self._start
        if at + count > len(self._window):
            span = min(max(count, WINDOW_BYTES), self.remaining)
            self._window = self._file.read(self.position, span, what).tobytes()
            self._start, at = self.position, 0
        return at
