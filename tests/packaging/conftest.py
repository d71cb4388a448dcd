from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def built_wheel(root: Path) -> Path:
    """The wheel that `make wheel` built (make test does so first)."""
    found = sorted((root / "dist").glob("fewbit-*.whl"))
    if len(found) != 1:
        pytest.fail(f"expected one wheel in {root / 'dist'}, found {len(found)}; run `make wheel`")
    return found[0]
