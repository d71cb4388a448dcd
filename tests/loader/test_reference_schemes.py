"""Whatever a format decodes runs on the reference backend, and on the cpu backend only where a kernel serves it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.gptq.config import Settings
from fewbit.kernels.backend import open_backend
from fewbit.loader import prepare
from fewbit.platforms.x86.detect import detect
from fewbit.spec.refusal import RefusedError
from tests.formats.gptq.fixture import tiny_gptq
from tests.models.tiny import ArrayCheckpoint, Driver, runner_of

TOKENS = {0: list(range(20))}


@pytest.mark.parametrize(
    ("settings", "backend_name"),
    [
        (Settings(4, 32, True, True), "reference"),
        *(
            (settings, name)
            for settings in (Settings(3, -1, False), Settings(8, 64, False))
            for name in ("reference", "cpu")
        ),
        (Settings(4, 64, True), "cpu"),
    ],
    ids=str,
)
def test_a_checkpoint_as_its_dequantized_self(tmp_path: Path, settings: Settings, backend_name: Any) -> None:
    """Projections of one scheme without an index are merged, those with one stay side by side: the same numbers."""
    checkpoint, backend = (
        open_checkpoint(tiny_gptq(tmp_path / "m", settings)),
        open_backend(backend_name, detect()),
    )
    held = {name: checkpoint.read(name) for name in checkpoint.tensors}
    plain = ArrayCheckpoint(checkpoint.model_type, dict(checkpoint.config), held).dequantized()
    blocks = {
        len(method.blocks)
        for method in prepare(checkpoint, backend.selector).linears
        if method.spec.kind == "qkv"
    }
    assert blocks == ({3} if settings.desc_act else {1})
    ours, theirs = (Driver(runner_of(c, backend)).logits(TOKENS)[0] for c in (checkpoint, plain))
    np.testing.assert_allclose(ours, theirs, atol=2e-5)


def test_the_cpu_refuses_and_offers_the_reference(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_gptq(tmp_path / "m", Settings(4, 32, True, True)))
    with pytest.raises(RefusedError, match=r"q_proj.weight.*i4g32i.*--allow-reference"):
        prepare(checkpoint, open_backend("cpu", detect()).selector)
