"""MXFP4 folders of gpt-oss: what is written is read, to the bit, expert by expert."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.mxfp4.encode import encode
from fewbit.formats.mxfp4.resolve import MXFP4
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.floats.table import values
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import dequantize, quantize
from tests.formats.altered import drop, put
from tests.formats.mxfp4.fixture import EXPERTS, tiny_experts, tiny_mxfp4
from tests.formats.tiny import tiny_config

AT = "model.layers.1.mlp.experts"


def test_what_was_written_is_read(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_mxfp4(tmp_path / "m", seed=3))
    assert checkpoint.format == "mxfp4"
    experts = tiny_experts(tiny_config("gpt_oss"), 3)
    assert {n for n, info in checkpoint.tensors.items() if not info.scheme.is_plain} == {
        n for n in experts if n.endswith("weight")
    }
    for name, value in experts.items():
        expected, found = quantize(value, MXFP4 if value.ndim == 2 else BF16), checkpoint.read(name)
        assert found.scheme == expected.scheme and found.shape == value.shape
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        for start, stop in ((5, 29), (7, 8), (4, 4)):
            piece = checkpoint.read(name, start, stop)
            for role, part in expected.parts.items():
                assert np.array_equal(piece.parts[role], part[start:stop]), role


def test_every_code_with_every_power(tmp_path: Path) -> None:
    """Code c in column c, the powers from one row to the next: gate has the even ones, up the odd ones."""
    folder = tiny_mxfp4(tmp_path / "m", hidden_size=32, intermediate_size=128, num_hidden_layers=2)
    codes = np.tile(np.arange(16, dtype=np.uint8), 2)
    packed = (codes[0::2] | codes[1::2] << 4).astype(np.uint8)
    put(f"{AT}.gate_up_proj_blocks", "U8", lambda b: np.broadcast_to(packed, b.shape))(folder)
    powers = np.minimum(np.arange(256), 251).astype(np.uint8).reshape(1, 256, 1)
    put(f"{AT}.gate_up_proj_scales", "U8", np.tile(powers, (EXPERTS, 1, 1)))(folder)
    checkpoint = open_checkpoint(folder)
    expected = values("e2m1")[codes] * values("e8m0")[powers[0]]
    for first, name in enumerate(("gate_proj", "up_proj")):
        assert np.array_equal(dequantize(checkpoint.read(f"{AT}.2.{name}.weight")), expected[first::2])


def test_experts_may_have_no_bias(tmp_path: Path) -> None:
    folder = tiny_mxfp4(tmp_path / "m")
    drop(f"{AT}.down_proj_bias")(folder)
    checkpoint = open_checkpoint(folder)
    assert f"{AT}.0.down_proj.bias" not in checkpoint.tensors and f"{AT}.0.up_proj.bias" in checkpoint.tensors
    assert "model.layers.*.self_attn" in checkpoint.unquantized["model.layers.0.self_attn.q_proj"]  # type: ignore[attr-defined]


def test_what_mxfp4_cannot_say() -> None:
    tensor = quantize(np.ones((32, 32), np.float32), U4G32O)
    with pytest.raises(ValueError, match="MXFP4 folders cannot express the scheme u4g32o"):
        encode([tensor], [tensor], [tensor])
