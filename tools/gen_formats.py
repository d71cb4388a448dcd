"""Writes src/fewbit/formats/evidence.csv: which schemes each format was seen to give, and how their reading is verified.

Opened for it: the tools' checkpoints that the clone carries (tests/oracles/table.py says how closely each is compared), what
tests write in each format, and GGUF's types. `--check` compares instead.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

from fewbit.formats import open_checkpoint  # noqa: E402
from fewbit.formats.checkpoint import Checkpoint  # noqa: E402
from fewbit.formats.evidence import HOWS, PACKAGED, Evidence, How, evidence_text  # noqa: E402
from fewbit.formats.gguf.types import TYPES  # noqa: E402
from fewbit.formats.registry import FORMATS  # noqa: E402
from fewbit.spec.scheme import Scheme  # noqa: E402
from tests.formats.test_faults import FOLDERS  # noqa: E402
from tests.oracles.oracle import Oracle  # noqa: E402
from tests.oracles.store import SUBSET  # noqa: E402
from tests.oracles.table import CHECKS, Check, Close  # noqa: E402

Key = tuple[str, str, str]  # format, scheme, type of its scales


def main(arguments: list[str]) -> int:
    """0 when the table is up to date or was written."""
    if arguments not in ([], ["--check"]):
        print("usage: python tools/gen_formats.py [--check]", file=sys.stderr)
        return 2
    text = evidence_text(collect())
    if PACKAGED.exists() and PACKAGED.read_text() == text:
        return 0
    if arguments:
        print(f"{PACKAGED.relative_to(ROOT)} is out of date; run python tools/gen_formats.py")
        return 1
    PACKAGED.write_text(text)
    print(f"wrote {PACKAGED.relative_to(ROOT)}")
    return 0


def collect() -> list[Evidence]:
    """By format in the order of the registry, then by scheme; the best evidence of each."""
    best: dict[Key, How] = {}
    counts: dict[Key, int] = {}
    for key, how, stored in seen():
        best[key] = min(best.get(key, how), how, key=HOWS.index)
        counts[key] = counts.get(key, 0) + stored
    order = list(FORMATS)
    keys = sorted(best, key=lambda key: (order.index(key[0]), key))
    return [Evidence(*key, best[key], counts[key]) for key in keys]


def seen() -> Iterator[tuple[Key, How, bool]]:
    """What each checkpoint holds, how it is compared, and whether a tool wrote it."""
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder)
        for name in SUBSET.entries():
            checkpoint = Oracle.open(SUBSET, name, scratch).checkpoint
            for key in keys(checkpoint):
                yield key, level(CHECKS[name]), True
        for number, write in enumerate(FOLDERS.values()):
            (path := scratch / str(number)).mkdir()
            for key in keys(open_checkpoint(write(path, num_hidden_layers=1))):
                yield key, "round trip", False
    for kind in TYPES.values():
        if not kind.scheme.is_plain:
            yield key_of("gguf", kind.scheme), "round trip", False


def keys(checkpoint: Checkpoint) -> set[Key]:
    """Plain weights are what the format `plain` is of, and nothing that the others are told apart by."""
    found = {
        key_of(checkpoint.format, info.scheme)
        for info in checkpoint.tensors.values()
        if info.scheme.is_plain == (checkpoint.format == "plain")
    }
    checkpoint.close()
    return found


def key_of(form: str, scheme: Scheme) -> Key:
    return form, scheme.name, scheme.scale.name if scheme.scale else ""


def level(check: Check) -> How:
    how = check.weights
    exact = (
        how in ("exact", "zero")
        if isinstance(how, str)
        else isinstance(how, Close) and not (how.relative or how.absolute)
    )
    return "bit-equal" if exact else "rounding"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
