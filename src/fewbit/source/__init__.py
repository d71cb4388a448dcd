"""Where a model comes from: a path, the demo model, or a repository of the Hugging Face hub, by way of its cache."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from fewbit.demo import NAME, demo_path
from fewbit.source.errors import SourceError
from fewbit.source.name import parse_name

Progress = Callable[
    [int, int], None
]  # bytes that are here, bytes in all; called before the first and after each piece


@dataclass(frozen=True, slots=True)
class Source:
    """`path`: what to open. `title`: what to call it; a cached snapshot's folder is named after a commit."""

    path: Path
    title: str


def resolve_model(name: str, offline: bool = False, progress: Progress | None = None) -> Source:
    """What a model's name on the command line means. A path that exists wins over a repository of that name.

    `offline` opens no connection. `./demo` is a folder of that name.
    """
    if name == NAME:
        found = demo_path()
        return Source(found, found.name)
    path = Path(name).expanduser()
    if (name and os.path.lexists(path)) or _looks_like_path(name):
        return Source(path, path.name or str(path))
    hub = parse_name(name)
    if hub is not None:
        from fewbit.source.hub import locate  # half a second of imports, for those alone who need them

        return Source(locate(hub, offline, progress or (lambda done, total: None)), name)
    raise SourceError(
        f"model {name!r} is no file or folder here, nor `demo`, nor the name of a repository of the Hugging Face hub "
        "(org/name, org/name@revision, or org/name:Q4_K_M for one of several GGUF files); give one of these"
    )


def _looks_like_path(name: str) -> bool:
    """So written that a path is meant, whether it exists or not; opening it says what is wrong."""
    return name.startswith(("/", "./", "../", "~")) or name.endswith((".gguf", ".safetensors", "/"))
