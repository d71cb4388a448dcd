"""Prints the jobs of continuous integration as JSON: one for each known platform, from the registry's table.

A job runs the product test with the features of its platform: `machine` is the least runner label, `features` the value of
FEWBIT_FEATURES that makes a better machine as small, `kernels` how many of the table's rows the job must then run.
`--check` compares with docs/ci-matrix.json, so that a new platform or instruction set shows in review.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "src"))

from fewbit.platforms.known import KNOWN  # noqa: E402
from fewbit.platforms.x86.mask import HIDDEN_FAMILIES  # noqa: E402
from fewbit.registry.table import load_rows  # noqa: E402
from fewbit.spec.features import ISAS, sort_features  # noqa: E402

FILE = ROOT / "docs" / "ci-matrix.json"
EVERYTHING = frozenset[str]().union(*(platform.provides for platform in KNOWN.values()))


def jobs() -> dict[str, Any]:
    rows = [row for row in load_rows() if row.backend == "cpu"]
    include = []
    for platform in KNOWN.values():
        runs = [row for row in rows if row.requires <= platform.provides]
        needed = [name for name in HIDDEN_FAMILIES if ISAS[name].requires <= platform.provides]
        include.append(
            {
                "platform": platform.name,
                "machine": needed[-1] if needed else "any",
                "features": ",".join(f"-{name}" for name in _hidden(platform.provides)),
                "kernels": len(runs),
                "command": "python tools/attest.py",
            }
        )
    return {"include": include}


def _hidden(provides: frozenset[str]) -> list[str]:
    """What FEWBIT_FEATURES must hide of the best platform, whole families by their name."""
    hidden = EVERYTHING - provides
    families = [name for name, family in HIDDEN_FAMILIES.items() if not family & provides]
    covered = frozenset[str]().union(*(HIDDEN_FAMILIES[name] for name in families))
    return families + sort_features(hidden - covered)


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: python tools/gen_ci_matrix.py [--check]", file=sys.stderr)
        return 2
    text = json.dumps(jobs(), indent=2) + "\n"
    if not arguments:
        FILE.write_text(text)
        print(text, end="")
        return 0
    if not FILE.exists() or FILE.read_text() != text:
        print(f"{FILE.relative_to(ROOT)} is out of date; run python tools/gen_ci_matrix.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
