"""Output that appears whole or not at all: written to a hidden folder beside its place, made durable, renamed.

The folder is locked while it is written. One that is not locked was left by a killed process, and the next conversion to
the same place removes it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fewbit.spec.refusal import FewbitError


def check_free(place: Path) -> None:
    """FewbitError when something is there already or could not be written there."""
    if os.path.lexists(place):
        raise FewbitError(f"{place} exists already; give a name that does not, or remove it first")
    if not place.parent.is_dir():
        raise FewbitError(f"{place.parent} is no folder, so nothing can be written into it; make it first")
    if not os.access(place.parent, os.W_OK | os.X_OK):
        raise FewbitError(f"{place.parent} cannot be written to; check its permissions")


def check_space(place: Path, needed: int) -> None:
    free = shutil.disk_usage(place.parent).free
    if needed > free:
        raise FewbitError(
            f"{place} needs {needed:,} bytes, but only {free:,} are free in {place.parent}; make room or give another place"
        )


@contextmanager
def work_folder(place: Path) -> Iterator[Path]:
    """An empty folder beside `place`, removed with all that is left in it."""
    folder = place.parent / f".{place.name}.fewbit-partial"
    lock = _make(folder, place)
    try:
        yield folder
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise FewbitError(
                f"{place} could not be written: {error.strerror}; nothing was left there, make room and run it again"
            ) from None
        raise
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os.close(lock)


def publish(made: Path, place: Path) -> None:
    """Gives a finished file or folder its name, durably; what stands there meanwhile is not replaced."""
    sync(made)
    if made.is_dir():
        for path in made.iterdir():
            sync(path)
        check_free(place)
        made.rename(place)
    else:
        try:
            os.link(made, place)  # unlike a rename, it never replaces
        except FileExistsError:
            raise FewbitError(f"{place} appeared while it was written; nothing was changed") from None
        except OSError:  # a file system without links
            check_free(place)
            made.rename(place)
    sync(place.parent)


def sync(path: Path) -> None:
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _make(folder: Path, place: Path) -> int:
    """The folder, made anew, and the descriptor that holds its lock."""
    for _ in range(2):
        try:
            folder.mkdir()
        except FileExistsError:
            _remove_stale(folder, place)
            continue
        return _lock(folder, place)
    raise FewbitError(f"{folder} could not be removed; remove it and run it again")


def _remove_stale(folder: Path, place: Path) -> None:
    lock = _lock(folder, place)
    shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _lock(folder: Path, place: Path) -> int:
    try:
        file = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise FewbitError(
            f"{folder} cannot be opened ({error.strerror}); remove it and run it again"
        ) from None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        raise FewbitError(
            f"{place} is being written by another process; wait for it, or give another place"
        ) from None
    return file
