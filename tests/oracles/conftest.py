"""Oracles are opened once each, from a copy without the reference."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from fewbit.kernels.backend import Backend, open_backend
from fewbit.platforms.x86.detect import detect
from tests.oracles.oracle import Oracle, find_oracles


@pytest.fixture(scope="session")
def oracle(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Oracle]:
    if find_oracles() is None:
        pytest.skip("the stored checkpoints are not here: set FEWBIT_ORACLES to their folder")
    scratch = tmp_path_factory.mktemp("oracles")
    return cache(lambda name: Oracle.open(name, scratch))


@pytest.fixture(scope="session")
def reference_backend() -> Backend:
    return open_backend("reference", detect())
