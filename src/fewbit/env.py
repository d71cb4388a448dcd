"""Every environment variable that fewbit reads, in one table: name, default, meaning, and how its text is read."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from fewbit.spec.refusal import FewbitError

T = TypeVar("T")


class EnvError(FewbitError):
    """An environment variable whose value cannot be read; the text names variable, value and what was expected."""


@dataclass(frozen=True, slots=True)
class Variable(Generic[T]):
    """`read` turns the text into a value or raises ValueError with what it expected; unset or empty gives `default`."""

    name: str
    default: T
    doc: str
    read: Callable[[str], T]

    def get(self, environ: Mapping[str, str] | None = None) -> T:
        text = (os.environ if environ is None else environ).get(self.name, "").strip()
        if not text:
            return self.default
        try:
            return self.read(text)
        except ValueError as expected:
            raise EnvError(f"environment variable {self.name} is {text!r}; expected {expected}") from None


def _feature_items(text: str) -> frozenset[str]:
    items = [item.strip() for item in text.split(",") if item.strip()]
    if "-" in items:
        raise ValueError(
            "features to hide with a minus sign, or to insist on without, like -amx,-avx512_bf16"
        )
    return frozenset(items)


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ValueError("a whole number of at least 1")
    return int(text)


def cpu_list(text: str) -> tuple[int, ...]:
    """Kernel notation, `0-3,8`, in the order given."""
    cpus: list[int] = []
    for item in text.split(","):
        first, dash, last = item.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or (dash and int(last) < int(first)):
            raise ValueError("a list of CPU numbers and ranges, like 0-3,8")
        cpus.extend(range(int(first), int(last or first) + 1))
    if len(set(cpus)) != len(cpus):
        raise ValueError("each CPU number once")
    return tuple(cpus)


def _folder(text: str) -> Path:
    path = Path(text)
    if not path.is_dir():
        raise ValueError("the path of an existing folder")
    return path


def _file(text: str) -> Path:
    path = Path(text)
    if not path.is_file():
        raise ValueError("the path of an existing file")
    return path


FEATURES: Variable[frozenset[str]] = Variable(
    "FEWBIT_FEATURES",
    frozenset(),
    "features of the machine to hide, like -amx,-avx512_bf16, so that a lesser machine can be tried on a better one; "
    "without the minus sign a feature is insisted on: where the machine lacks it, fewbit refuses to start",
    _feature_items,
)
THREADS: Variable[int | None] = Variable(
    "FEWBIT_THREADS",
    None,
    "worker threads; default one per physical core that the process may use",
    _positive,
)
CPUS: Variable[tuple[int, ...] | None] = Variable(
    "FEWBIT_CPUS", None, "CPU numbers to pin the worker threads to, like 0-3,8", cpu_list
)
LIBRARY: Variable[Path | None] = Variable(
    "FEWBIT_LIBRARY", None, "kernel library to load instead of the installed one", _file
)
API_KEY: Variable[str | None] = Variable(
    "FEWBIT_API_KEY", None, "key that the server demands as a bearer token on every route but /health", str
)
ORACLES: Variable[Path | None] = Variable(
    "FEWBIT_ORACLES",
    None,
    "folder of checkpoints that other tools wrote, with reference weights, for the tests; default ../shared/oracles",
    _folder,
)

VARIABLES: tuple[Variable[Any], ...] = (FEATURES, THREADS, CPUS, LIBRARY, API_KEY, ORACLES)
