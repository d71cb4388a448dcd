"""Weights are packed piece by piece, what is too large is refused with the numbers, and no source page stays."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.loader import load_model
from fewbit.loader.memory import MemoryRefused
from fewbit.loader.pieces import Piece
from fewbit.platforms.linux.memory import Memory
from fewbit.schemes import SCHEMES
from fewbit.spec.scheme import QuantTensor
from tests.bugs.guard import guarded
from tests.bugs.model import REFERENCE
from tests.conftest import cli_environment
from tests.formats.gguf.fixture import tiny_gguf
from tests.models.tiny import ArrayCheckpoint, plain_llama

MOST_BYTES = 16 << 20


class Watched(ArrayCheckpoint):
    """Remembers the largest run of rows that was asked for, in bytes of f32."""

    largest = 0

    def read(self, name: str, start: int = 0, stop: int | None = None) -> QuantTensor:
        found = super().read(name, start, stop)
        Watched.largest = max(Watched.largest, 4 * int(np.prod(found.shape)))
        return found


def _whole(block: Any, threads: int) -> Iterator[Piece]:
    yield Piece(block, 0, tuple((w, 0, w.shape[0]) for w in block.weights))


@guarded("fewbit.loader.stream:cut", _whole)
def test_no_weight_is_ever_unpacked_whole() -> None:
    """Rows come in runs of at most 16 MiB, whatever the size of the matrix. (The demo model's peak is in tests/loader.)"""
    whole = plain_llama({"mlp": SCHEMES["i8g32"]}, hidden=1024, inner=8192)
    largest = max(4 * int(np.prod(t.shape)) for t in whole.held.values())
    assert largest == 2 * MOST_BYTES  # as f32: a whole copy would show
    Watched.largest = 0
    load_model(Watched(whole.model_type, whole.config, whole.held), REFERENCE)
    assert 0 < Watched.largest <= MOST_BYTES


@guarded("fewbit.loader:check_memory", lambda need, memory: None, "DID NOT RAISE")
def test_a_model_beyond_the_memory_is_refused_with_the_numbers(tmp_path: Path) -> None:
    from fewbit.loader.open import open_model

    checkpoint = open_model(tiny_gguf(tmp_path / "m.gguf"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fewbit.loader.read_memory", lambda: Memory(1 << 30, 90 << 20, "control group"))
        with pytest.raises(
            MemoryRefused, match=r"does not fit: weights .*together .*control group has 90 MiB left"
        ):
            load_model(checkpoint, REFERENCE)


PROBE = """
import resource, sys
from pathlib import Path
from fewbit.kernels.backend import open_backend
from fewbit.loader import load_model
from fewbit.loader.open import open_model
from fewbit.platforms.x86.detect import detect
from fewbit.spec.refusal import FewbitError
backend, checkpoint = open_backend("reference", detect()), open_model(Path(sys.argv[1]))
taken = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (taken + (8 << 20),) * 2)
try:
    load_model(checkpoint, backend)
except (FewbitError, MemoryError) as error:
    print(type(error).__name__, error)
    sys.exit(1)
print("loaded")
"""


def test_an_allocation_that_fails_ends_with_a_sentence_and_no_signal(tmp_path: Path) -> None:
    """Under a limit of the address space below the need: an error that can be caught, not a killed process."""
    path = tiny_gguf(
        tmp_path / "m.gguf", hidden_size=512, intermediate_size=2048, num_attention_heads=8, head_dim=64
    )
    done = subprocess.run(
        [sys.executable, "-c", PROBE, str(path)],
        capture_output=True,
        text=True,
        env=cli_environment(),
        timeout=120,
    )
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert done.stdout.startswith(("MemoryRefused", "MemoryError", "_ArrayMemoryError")), done.stdout
