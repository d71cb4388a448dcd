"""Oracles are opened once each, from a copy without the reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from fewbit.kernels.backend import Backend, open_backend
from fewbit.platforms.x86.detect import detect
from tests.oracles.oracle import Oracle
from tests.oracles.store import Store


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Store, str], Oracle]:
    scratch = tmp_path_factory.mktemp("oracles")
    return cache(lambda store, name: Oracle.open(store, name, scratch))


@pytest.fixture(scope="session")
def reference_backend() -> Backend:
    return open_backend("reference", detect())
