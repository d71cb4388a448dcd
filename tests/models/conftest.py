"""Backends, opened once; the reference needs no kernel library."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from fewbit.kernels.backend import Backend, open_backend
from fewbit.platforms.x86.detect import detect


@cache
def _backend(name: str) -> Backend:
    return open_backend(name, detect())


@pytest.fixture(scope="session")
def backends() -> Callable[[str], Backend]:
    return _backend
