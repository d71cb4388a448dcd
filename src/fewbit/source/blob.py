"""One large file on its way into the cache: resumed where it stopped, and not believed before its hash is right."""

from __future__ import annotations

import hashlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from io import BufferedRandom
from pathlib import Path
from typing import BinaryIO

from httpx2 import ReadError
from huggingface_hub import hf_hub_url
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import WeakFileLock, build_hf_headers

from fewbit.source.errors import SourceError

ATTEMPTS = 5  # in a row that bring nothing


class Meter:
    """Bytes of all streams together."""

    def __init__(self, total: int, done: int, progress: Callable[[int, int], None]) -> None:
        self.total, self.done = total, done
        self._progress, self._lock = progress, threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self.done += count
            self._progress(self.done, self.total)


class Stopped(Exception):
    """Another stream failed, or the user ended it."""


@dataclass(frozen=True, slots=True)
class Blob:
    """`home`: the repository's folder in the cache."""

    repo: str
    commit: str
    name: str
    sha256: str
    size: int
    home: Path

    @property
    def path(self) -> Path:
        return self.home / "blobs" / self.sha256

    @property
    def kept(self) -> Path:
        """What has arrived. Other tools' partial files have other names."""
        return self.path.with_name(f"{self.sha256}.fewbit.incomplete")

    def kept_bytes(self) -> int:
        """0 where more is there than the file has: it is not a part of it."""
        size = self.kept.stat().st_size if self.kept.exists() else 0
        return size if size <= self.size else 0

    def fetch(self, meter: Meter, stop: threading.Event) -> None:
        """Under the lock that huggingface_hub takes, so that two processes fetch a file once."""
        lock = self.home.parent / ".locks" / self.home.name / f"{self.sha256}.lock"
        lock.parent.mkdir(parents=True, exist_ok=True)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with WeakFileLock(lock):
            if self.path.exists():
                meter.add(self.size - self.kept_bytes())
                return
            with self.kept.open("r+b" if self.kept_bytes() else "w+b") as file:
                self._receive(_Arriving(file, self.size, meter, stop))
                file.flush()
                os.fsync(file.fileno())
                self._check(file)
            self.kept.replace(self.path)

    def _receive(self, file: _Arriving) -> None:
        url = hf_hub_url(self.repo, self.name, revision=self.commit)
        failures = 0
        while True:
            before = file.seek(0, os.SEEK_END)
            try:
                http_get(url, file, resume_size=before, headers=build_hf_headers(), expected_size=self.size)  # type: ignore[arg-type]
                return
            except ReadError:  # a reset connection; http_get itself resumes after every other early end
                failures = failures + 1 if file.tell() == before else 0
                if failures == ATTEMPTS:
                    raise
                time.sleep(1)

    def _check(self, file: BufferedRandom) -> None:
        file.seek(0)
        found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != self.sha256:
            self.kept.unlink()
            raise SourceError(
                f"{self.repo}: {self.name} has SHA-256 {found}, expected {self.sha256}; it was damaged on the way and is removed, "
                "start again"
            )


class _Arriving:
    """The file that a response is written to: counts, ends with the others, and holds no more than was announced."""

    def __init__(self, file: BinaryIO, size: int, meter: Meter, stop: threading.Event) -> None:
        self._file, self._size, self._meter, self._stop = file, size, meter, stop

    def write(self, data: bytes) -> int:
        if self._stop.is_set():
            raise Stopped
        if self._file.tell() + len(data) > self._size:
            raise SourceError(
                f"{self._file.name}: the hub sends more than the {self._size} bytes that it announced; try again later"
            )
        self._meter.add(len(data))
        return self._file.write(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def truncate(self) -> int:
        """Everything behind the current position: the server began again from the start."""
        at = self._file.tell()
        self._meter.add(at - self._file.seek(0, os.SEEK_END))
        return self._file.truncate(self._file.seek(at))
