"""Reading a checkpoint file that anyone may have written, and may change while it is open.

Bytes come by pread: a file that shrinks under a memory map kills the process with SIGBUS, a short read is an error with a
name. The kernel's page cache serves both alike. Only columns, a few bytes from each of thousands of rows, come through a map,
by a copy in the compiled library that SIGBUS ends without harm.
"""

from __future__ import annotations

import mmap
import os
import stat
from functools import cached_property
from pathlib import Path

import numpy as np

from fewbit import codec
from fewbit.schemes.arrays import Array
from fewbit.spec.refusal import CheckpointError

COLUMN_BYTES = 1 << 20  # read at a time when columns are cut out of whole rows


class CheckedFile:
    """A regular file, opened once. Every read is inside the size it had at opening, or refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            # A pipe would block in open: O_NONBLOCK opens it at once, and fstat then refuses it.
            self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise CheckpointError(
                f"{path}: cannot be opened ({error.strerror}); check path and permissions"
            ) from None
        status = os.fstat(self._fd)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise CheckpointError(
                f"{path}: is not a regular file (a folder, pipe, socket or device); give a checkpoint file"
            )
        self.size = status.st_size
        self._changed = status.st_mtime_ns

    @cached_property
    def _map(self) -> Array | None:
        """The file's bytes, for `codec.copy_columns` alone; None without the library, or where a file cannot be mapped."""
        if not codec.available():
            return None
        try:
            return np.frombuffer(mmap.mmap(self._fd, self.size, prot=mmap.PROT_READ), np.uint8)
        except (OSError, ValueError):
            return None

    def close(self) -> None:
        self.__dict__.pop("_map", None)  # unmapped when the last reader is done
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def read(self, offset: int, count: int, what: str) -> Array:
        """uint8 [count] from `offset`; `what` names the tensor or part for the error."""
        if offset < 0 or count < 0 or offset + count > self.size:
            raise CheckpointError(
                f"{self.path}: {what} needs bytes {offset} to {offset + count}, but the file has {self.size}; "
                "it is truncated or corrupt, fetch it again"
            )
        self._check_unchanged(what)
        out: Array = np.empty(count, np.uint8)
        self._fill(out, offset, what)
        return out

    def read_columns(self, offset: int, width: int, stride: int, count: int, what: str) -> Array:
        """uint8 [count, width]: `width` bytes from `offset`, from `offset + stride`, and so on."""
        if 2 * width >= stride:  # most of the bytes are wanted anyway
            out: Array = np.empty((count, width), np.uint8)
            step = max(1, COLUMN_BYTES // stride)
            for row in range(0, count, step):
                rows = min(step, count - row)
                raw = self.read(offset + row * stride, (rows - 1) * stride + width, what)
                out[row : row + rows] = np.lib.stride_tricks.as_strided(raw, (rows, width), (stride, 1))
            return out
        last = offset + (count - 1) * stride + width
        if offset < 0 or min(count, width) <= 0 or last > self.size:
            raise CheckpointError(
                f"{self.path}: {what} needs bytes {offset} to {last}, but the file has {self.size}; "
                "it is truncated or corrupt, fetch it again"
            )
        self._check_unchanged(what)
        out = np.empty((count, width), np.uint8)
        if self._map is not None and codec.copy_columns(self._map, offset, stride, out):
            return out
        for row in range(count):  # also to say what went wrong
            self._fill(out[row], offset + row * stride, what)
        return out

    def _fill(self, out: Array, offset: int, what: str) -> None:
        view = memoryview(out)  # type: ignore[arg-type]
        count, done = out.size, 0
        while done < count:
            try:
                got = os.preadv(self._fd, [view[done:]], offset + done)
            except OSError as error:
                raise CheckpointError(
                    f"{self.path}: reading {what} failed ({error.strerror}); check the disk"
                ) from None
            if got == 0:
                raise CheckpointError(
                    f"{self.path}: ended at byte {offset + done} while {what} was read, expected {self.size} bytes; "
                    "it was truncated after it was opened, open it again"
                )
            done += got

    def _check_unchanged(self, what: str) -> None:
        if self._fd < 0:
            raise CheckpointError(
                f"{self.path}: is closed, so {what} cannot be read; open the checkpoint again"
            )
        status = os.fstat(self._fd)
        if status.st_size != self.size or status.st_mtime_ns != self._changed:
            raise CheckpointError(
                f"{self.path}: changed after it was opened ({self.size} bytes then, {status.st_size} now), so {what} "
                "cannot be trusted; open it again"
            )
