"""w8a8_int8, w8a8_fp8 and blockwise_int8 folders: what is written is read, and what is wrong is said."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.w8a8.config import BLOCKWISE, METHODS
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.refusal import CheckpointError
from tests.formats import edits
from tests.formats.edits import Edit, add, drop, put, rename
from tests.formats.tiny import tiny_config, tiny_weights
from tests.formats.w8a8.fixture import scheme_of, tiny_w8a8

DOWN = "model.layers.0.mlp.down_proj"
WEIGHT, SCALE, INVERSE = (f"{DOWN}.weight{end}" for end in ("", "_scale", "_scale_inv"))
keys = partial(edits.keys, "quantization_config")


@pytest.mark.parametrize("block", [(32, 32), (16, 64), (128, 128), (24, 40)])
@pytest.mark.parametrize("method", METHODS)
def test_what_was_written_is_read(tmp_path: Path, method: str, block: tuple[int, int]) -> None:
    """Partial last blocks too."""
    checkpoint = open_checkpoint(tiny_w8a8(tmp_path / "m", method, seed=3, block=block))
    assert checkpoint.format == "w8a8"
    for name, weight in tiny_weights(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = quantize(weight, scheme_of(method, block))
        assert found.scheme == expected.scheme == checkpoint.tensors[name].scheme
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        start = (
            min(block[0], weight.shape[0] // 2)
            if method != BLOCKWISE
            else block[0] * (block[0] < weight.shape[0])
        )
        assert np.array_equal(
            dequantize(checkpoint.read(name, start, weight.shape[0])), dequantize(expected)[start:]
        )


@pytest.mark.parametrize("method", METHODS)
def test_every_code(tmp_path: Path, method: str) -> None:
    folder = tiny_w8a8(tmp_path / "m", method)
    codes = np.resize(np.arange(256, dtype=np.uint8), (64, 128))
    if method == "w8a8_fp8":
        codes = np.where((codes & 0x7F) == 0x7F, 0, codes).astype(np.uint8)  # NaN, which no weight is
    put(WEIGHT, lambda w: codes.view(w.dtype))(folder)
    found = open_checkpoint(folder).read(WEIGHT)
    assert np.array_equal(found.parts["codes"].view(np.uint8), codes)


CASES: dict[str, tuple[str, Edit, str]] = {
    "an unknown key": ("w8a8_int8", keys(mystery=1), "key 'mystery' is unknown for the format w8a8_int8"),
    "static activations": ("w8a8_fp8", keys(activation_scheme="static"), "'activation_scheme' is 'static'"),
    "blocks of rows": ("w8a8_int8", keys(weight_block_size=[32, 32]), "has the key 'weight_block_size', but w8a8_int8"),
    "no block": (BLOCKWISE, keys(weight_block_size=...), "'weight_block_size' is None, expected two"),
    "a block of 0": (BLOCKWISE, keys(weight_block_size=[0, 32]), "'weight_block_size' is [0, 32]"),
    "another block": (BLOCKWISE, keys(weight_block_size=[64, 64]), "expected shape [1, 1]"),
    "a skipped module that is packed": ("w8a8_int8", keys(ignore=["mlp"]), "leaves out 'mlp'"),
    "another method": ("w8a8_int8", keys(quant_method="w8a8_fp8"), "expected type F8_E4M3"),
    "no scale": ("w8a8_int8", drop(SCALE), f"module '{DOWN}' has no tensor 'weight_scale'"),
    "no inverse scale": (BLOCKWISE, drop(INVERSE), f"module '{DOWN}' has no tensor 'weight_scale_inv'"),
    "the scale renamed": ("w8a8_fp8", rename(SCALE, INVERSE), f"module '{DOWN}' has no tensor 'weight_scale'"),
    "both scales": ("w8a8_fp8", add(INVERSE, "F32", np.ones((64, 1), np.float32)), f"tensor '{INVERSE}' (F32 [64, 1]) is taken by nothing"),
    "a scale of another type": ("w8a8_int8", put(SCALE, lambda s: s.astype(np.float16), "F16"), "expected type F32"),
    "a scale of another shape": ("w8a8_int8", put(SCALE, lambda s: s[:-1]), "(F32 [63, 1]), expected shape [64, 1]"),
    "a NaN scale": ("w8a8_int8", put(SCALE, lambda s: s * np.float32(np.nan)), f"tensor '{SCALE}' has a NaN scale"),
    "a NaN weight": ("w8a8_fp8", put(WEIGHT, lambda w: w | np.uint8(0x7F)), f"tensor '{WEIGHT}' has the e4m3 code"),
    "plain with a scale": ("w8a8_int8", put(WEIGHT, lambda w: w.astype(np.float16), "F16"), "expected type I8"),
    "no weight": ("w8a8_int8", drop(WEIGHT), f"module '{DOWN}' has no tensor 'weight'"),
    "a tensor too many": ("w8a8_int8", add(f"{DOWN}.extra", "I32", np.zeros(4, np.int32)), "is taken by nothing"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    method, act, expected = CASES[case]
    folder = tiny_w8a8(tmp_path / "m", method)
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(WEIGHT)
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)
