"""Where libfewbit.so may lie. It stands here, below all, since kernels, decoding and the detection of a machine call into it."""

from __future__ import annotations

from pathlib import Path

import fewbit
from fewbit import env
from fewbit.spec.refusal import FewbitError

NAME = "libfewbit.so"


class LibraryError(FewbitError):
    """The compiled library is missing, cannot be loaded, or is of another build."""


def library_paths() -> list[Path]:
    """In the order of looking: FEWBIT_LIBRARY alone when set; else beside the kernels, then a checkout's build folder."""
    named = env.LIBRARY.get()
    if named:
        return [named]
    package = Path(fewbit.__file__).resolve().parent
    return [package / "kernels" / "cpu" / NAME, package.parents[1] / "build" / NAME]


def find_library() -> Path | None:
    return next((path for path in library_paths() if path.is_file()), None)
