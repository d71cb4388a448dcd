"""Where libfewbit.so may lie. It stands here, below the kernels, since detection asks the library what the core grants."""

from __future__ import annotations

from pathlib import Path

import fewbit
from fewbit import env

NAME = "libfewbit.so"


def library_paths() -> list[Path]:
    """In the order of looking: FEWBIT_LIBRARY alone when set; else beside the kernels, then a checkout's build folder."""
    named = env.LIBRARY.get()
    if named:
        return [named]
    package = Path(fewbit.__file__).resolve().parent
    return [package / "kernels" / "cpu" / NAME, package.parents[1] / "build" / NAME]


def find_library() -> Path | None:
    return next((path for path in library_paths() if path.is_file()), None)
