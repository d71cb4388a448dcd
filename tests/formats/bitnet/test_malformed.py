"""What is wrong with a BitNet folder is said with file, tensor and rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.spec.refusal import CheckpointError
from tests.formats.altered import Alter, drop, keys, put, rename
from tests.formats.bitnet.fixture import tiny_bitnet

DOWN = "model.layers.0.mlp.down_proj"

CASES: dict[str, tuple[Alter, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format bitnet"),
    "another class": (keys(linear_class="tritlinear"), "key 'linear_class' is 'tritlinear', which is not supported"),
    "another mode": (keys(quantization_mode="later"), "key 'quantization_mode' is 'later', which is not supported"),
    "a norm of activations": (keys(use_rms_norm=True), "key 'use_rms_norm' is True, which is not supported"),
    "online bitlinear": (keys(linear_class="bitlinear", quantization_mode="online"), "which runs packed weights only"),
    "a pattern": (keys(modules_to_not_convert=["(a+)+"]), "has the pattern '(a+)+', expected names"),
    "online, but packed": (keys(quantization_mode="online"), "but"),
    "a skipped module that is packed": (keys(modules_to_not_convert=["down_proj"]), "is left unquantized by the entry 'down_proj'"),
    "no scale": (drop(f"{DOWN}.weight_scale"), f"module '{DOWN}' has no tensor 'weight_scale'"),
    "a scale of another name": (rename(f"{DOWN}.weight_scale", f"{DOWN}.scale"), f"module '{DOWN}' has no tensor 'weight_scale'"),
    "no weight": (drop(f"{DOWN}.weight"), f"module '{DOWN}' has no tensor 'weight'"),
    "a scale for each row": (put(f"{DOWN}.weight_scale", "BF16", np.ones(64, np.uint16)), f"tensor '{DOWN}.weight_scale' (BF16 [64]), expected a single number"),
    "an integer scale": (put(f"{DOWN}.weight_scale", "I32", np.ones(1, np.int32)), "expected type F32 or F16 or BF16"),
    "a NaN scale": (put(f"{DOWN}.weight_scale", "BF16", np.array([0x7FC0], np.uint16)), "has a NaN scale"),
    "weights of another type": (put(f"{DOWN}.weight", "I8", lambda w: w.view(np.int8)), f"tensor '{DOWN}.weight' (I8 [16, 128]), expected type U8"),
    "plain weights with a scale": (put(f"{DOWN}.weight", "BF16", np.ones((64, 128), np.uint16)), "expected type U8"),
    "a code of 3": (put(f"{DOWN}.weight", "U8", lambda w: w | np.uint8(0x30)), "has the code 3 for the weight at row 32, column 0"),
    "a vector": (put(f"{DOWN}.weight", "U8", lambda w: w.reshape(-1)), "expected a matrix"),
    "a tensor too many": (put(f"{DOWN}.extra", "U8", np.ones(1, np.uint8)), f"'{DOWN}.extra' (U8 [1]) is taken by nothing"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_bitnet(tmp_path / "m")
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)


def test_a_scale_of_zero_that_divides(tmp_path: Path) -> None:
    folder = tiny_bitnet(tmp_path / "m", keys={"linear_class": "bitlinear"})
    put(f"{DOWN}.weight_scale", "BF16", np.zeros(1, np.uint16))(folder)
    with pytest.raises(CheckpointError, match=r"is 0\.0, expected a finite number other than 0"):
        open_checkpoint(folder).read(f"{DOWN}.weight")
