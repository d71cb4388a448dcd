"""What is wrong with an FP8 folder is said with file, tensor and rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.spec.refusal import CheckpointError
from tests.formats.altered import Alter, drop, keys, put, rename
from tests.formats.fp8.fixture import tiny_fp8

DOWN = "model.layers.0.mlp.down_proj"
SCALE = f"{DOWN}.weight_scale_inv"

CASES: dict[str, tuple[Alter, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format fp8"),
    "another float": (keys(fmt="e5m2"), "'fmt' is 'e5m2', which is not supported"),
    "an unknown scheme of inputs": (keys(activation_scheme="token"), "'activation_scheme' is 'token'"),
    "a block of one number": (keys(weight_block_size=[128]), "'weight_block_size' is [128]"),
    "a block of 0 rows": (keys(weight_block_size=[0, 128]), "'weight_block_size' is [0, 128]"),
    "another block": (keys(weight_block_size=[32, 48]), "expected shape [4, 2], one scale for each block of 32 x 48"),
    "no block": (keys(weight_block_size=...), "expected one scale for the tensor, or 64 for its rows"),
    "mxfp8 of blocks": (keys(quant_method="mxfp8"), "is [48, 48], expected [1, 32]"),
    "static without scales": (keys(activation_scheme="static"), "has no tensor 'input_scale', which activation_scheme static needs"),
    "a skipped module that is quantized": (keys(modules_to_not_convert=["down_proj"]), f"module '{DOWN}' is left unquantized by the entry 'down_proj'"),
    "no scale": (drop(SCALE), f"module '{DOWN}' has no tensor 'weight_scale_inv'"),
    "a scale of another name": (rename(SCALE, f"{DOWN}.scales"), f"module '{DOWN}' has no tensor 'weight_scale_inv'"),
    "both scales": (put(f"{DOWN}.weight_scale", "F32", np.ones(1, np.float32)), "both weight_scale and weight_scale_inv"),
    "scales of another type": (put(SCALE, "I32", lambda s: s.astype(np.int32)), f"tensor '{SCALE}' (I32"),
    "scales of another shape": (put(SCALE, "F32", lambda s: s[:-1]), f"tensor '{SCALE}' (F32 [1, 3]), expected shape [2, 3]"),
    "a NaN scale": (put(SCALE, "F32", lambda s: s * np.float32(np.nan)), f"tensor '{SCALE}' has a NaN scale"),
    "a NaN power": (put(SCALE, "F8_E8M0", lambda s: np.full(s.shape, 255, np.uint8)), f"tensor '{SCALE}' has the e8m0 code 0xff"),
    "a NaN code": (put(f"{DOWN}.weight", "F8_E4M3", lambda w: w | 0x7F), f"tensor '{DOWN}.weight' has the e4m3 code"),
    "codes of another type": (put(f"{DOWN}.weight", "I8", lambda w: w.view(np.int8)), f"tensor '{DOWN}.weight' (I8 [64, 128]), expected type"),
    "plain beside a scale": (put(f"{DOWN}.weight", "BF16", lambda w: w.astype(np.uint16)), f"tensor '{DOWN}.weight' (BF16 [64, 128]), expected type"),
    "a weight of one dimension": (put(f"{DOWN}.weight", "F8_E4M3", lambda w: w[0]), "expected a matrix"),
    "a tensor too many": (put(f"{DOWN}.extra", "I32", np.zeros(4, np.int32)), f"'{DOWN}.extra' (I32 [4]) is taken by nothing"),
    "an input scale of two": (put(f"{DOWN}.input_scale", "F32", np.ones(2, np.float32)), "expected a single number"),
    "a scale of a plain module": (put("lm_head.weight_scale", "F32", np.ones(1, np.float32)), "tensor 'lm_head.weight' (BF16"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_fp8(tmp_path / "m")
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)
