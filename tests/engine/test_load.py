"""Loading for an engine: which backend runs a checkpoint that no kernel of this machine serves."""

from __future__ import annotations

from pathlib import Path

import pytest

from fewbit.config import EngineConfig, ModelConfig
from fewbit.engine.load import load
from fewbit.formats.gptq.config import Settings
from fewbit.spec.refusal import RefusedError
from tests.formats.gptq.fixture import tiny_gptq
from tests.formats.plain.fixture import tiny_folder

SMALL = EngineConfig(context=64, max_sequences=1, kv_memory="1MiB")


@pytest.fixture
def gptq(tmp_path: Path) -> Path:
    return tiny_gptq(
        tmp_path / "m", Settings(4, 32, True, True)
    )  # activation order: a scheme that no cpu row reads yet


def test_a_scheme_without_kernel_is_refused_with_the_way_out(gptq: Path) -> None:
    with pytest.raises(RefusedError, match=r"q_proj.*i4g32i.*--allow-reference"):
        load(gptq, ModelConfig(), SMALL)


def test_the_reference_backend_runs_it_when_allowed_and_says_so(gptq: Path) -> None:
    loaded = load(gptq, ModelConfig(allow_reference=True), SMALL)
    try:
        assert dict(loaded.facts)["platform"].endswith("reference backend (slow)")
    finally:
        loaded.close()


def test_allowing_the_reference_does_not_take_it_where_kernels_serve(tmp_path: Path) -> None:
    loaded = load(tiny_folder(tmp_path / "m"), ModelConfig(allow_reference=True), SMALL)
    try:
        assert "reference" not in dict(loaded.facts)["platform"]
    finally:
        loaded.close()
