"""What a layer asks of the registry."""

from __future__ import annotations

from pathlib import Path

import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.mlx.config import Settings
from fewbit.kernels.backend import open_backend
from fewbit.loader import prepare
from fewbit.platforms.x86.detect import detect
from fewbit.spec.refusal import RefusedError
from tests.formats.mlx.fixture import tiny_mlx

PLAIN = [
    *(f"model.layers.{i}.self_attn.{name}_proj" for i in range(2) for name in "qkvo"),
    *(f"model.layers.{i}.mlp.{name}_proj" for i in range(2) for name in ("gate", "up", "down")),
    "lm_head",
]


def test_an_embedding_asks_for_its_scales_type(tmp_path: Path) -> None:
    """Kernels read f16 scales: f32 ones, packed as they are, would be other numbers."""
    folder = tiny_mlx(tmp_path / "m", Settings(4, 32), overrides=dict.fromkeys(PLAIN), scale="f32")
    selector = open_backend("cpu", detect(), 1).selector
    with pytest.raises(RefusedError, match=r"model.embed_tokens.weight.*f32"):
        prepare(open_checkpoint(folder), selector)
    folder = tiny_mlx(tmp_path / "f16", Settings(4, 32), overrides=dict.fromkeys(PLAIN), scale="f16")
    assert prepare(open_checkpoint(folder), selector).embedding.choice.layout == "n32k32"
