"""The demo model on the cpu backend, loaded once, and its golden outputs (FP32 torch over the dequantized weights)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.engine.runner import Runner
from fewbit.formats import open_checkpoint
from fewbit.kernels.backend import open_backend
from fewbit.loader import LoadOptions, load_model
from fewbit.platforms.x86.detect import detect
from tests.models.tiny import Driver

PAGES = 17  # of a sequence: 544 tokens


def load(path: Path, activations: str = "auto") -> Runner:
    checkpoint, backend = open_checkpoint(path), open_backend("cpu", detect())
    model = load_model(checkpoint, backend, LoadOptions(activations)).model
    checkpoint.close()
    return Runner(
        model, backend, max_rows=512, max_sequences=8, pages=8 * PAGES + 1, max_pages_per_sequence=PAGES
    )


@pytest.fixture(scope="session")
def demo_runner(demo_model: Path) -> Runner:
    return load(demo_model)


@pytest.fixture
def demo(demo_runner: Runner) -> Driver:
    return Driver(demo_runner, PAGES)


@pytest.fixture(scope="session")
def read_golden(golden: Path) -> Any:
    return lambda name: json.loads((golden / name).read_text())


def log_softmax(logits: np.ndarray) -> np.ndarray:
    wide = logits.astype(np.float64)
    wide -= wide.max(axis=1, keepdims=True)
    return wide - np.log(np.exp(wide).sum(axis=1, keepdims=True))
