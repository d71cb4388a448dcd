from __future__ import annotations

import pytest

from fewbit.kernels.backend import Backend, open_backend
from fewbit.spec.cell import Platform


@pytest.fixture(scope="session")
def reference() -> Backend:
    return open_backend("reference", Platform("bare", frozenset()))
