"""What is wrong with an HQQ folder is said with file, tensor and rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.hqq.config import Settings
from fewbit.formats.hqq.encode import config_of
from fewbit.spec.refusal import CheckpointError
from tests.formats.altered import Alter, drop, keys, put, rename
from tests.formats.hqq.fixture import tiny_hqq

DOWN = "model.layers.0.mlp.down_proj"
GOOD: Any = config_of(Settings(4, 32))["quant_config"]


def params(**changes: Any) -> Alter:
    changed = {k: v for k, v in (GOOD["weight_quant_params"] | changes).items() if v is not ...}
    return keys(quant_config=GOOD | {"weight_quant_params": changed})


def word(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8)


CASES: dict[str, tuple[Alter, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format hqq"),
    "an unknown key of the weights": (params(mystery=1), "weight_quant_params: key 'mystery' is unknown"),
    "no settings": (keys(quant_config=...), "key 'quant_config' is absent"),
    "empty settings": (keys(quant_config={}), "key 'weight_quant_params' is absent"),
    "settings that are none": (keys(quant_config={"mlp.down_proj": 4}), "quant_config 'mlp.down_proj': is 4, expected an object"),
    "7 bits": (params(nbits=7), "key 'nbits' is 7, which is not supported"),
    "axis 2": (params(axis=2), "key 'axis' is 2, which is not supported"),
    "other bits": (params(nbits=8), "stores Settings(nbits=4, group_size=32"),
    "another group": (params(group_size=64), "they contradict each other"),
    "another axis": (params(axis=0), "they contradict each other"),
    "a module that no setting names": (keys(quant_config={"self_attn.q_proj": GOOD}), "does not name it in quant_config"),
    "a skipped module that is quantized": (keys(skip_modules=["down_proj"]), "is left unquantized by the entry 'down_proj' of skip_modules"),
    "no scale": (drop(f"{DOWN}.scale"), f"module '{DOWN}' has no tensor 'scale'"),
    "no zero": (drop(f"{DOWN}.zero"), f"module '{DOWN}' has no tensor 'zero'"),
    "a scale of another name": (rename(f"{DOWN}.scale", f"{DOWN}.scales"), f"module '{DOWN}' has no tensor 'scale'"),
    "no words": (drop(f"{DOWN}.W_q"), f"tensor '{DOWN}.scale' (F16 [256, 1]) is taken by nothing"),
    "words of another type": (put(f"{DOWN}.W_q", "I8", lambda w: w.view(np.int8)), f"tensor '{DOWN}.W_q' (I8 [128, 32]), expected type U8"),
    "words cut": (put(f"{DOWN}.W_q", "U8", lambda w: w[:-1]), f"tensor '{DOWN}.W_q' (U8 [127, 32]), expected shape [128, 32]"),
    "a scale of another shape": (put(f"{DOWN}.scale", "F16", lambda s: s[:-1]), f"tensor '{DOWN}.scale' (F16 [255, 1]), expected shape [256, 1]"),
    "an integer scale": (put(f"{DOWN}.scale", "I16", lambda s: s.view(np.int16)), f"tensor '{DOWN}.scale' (I16 [256, 1]), expected type F32"),
    "NaN scales": (put(f"{DOWN}.scale", "F16", lambda s: s * np.float16(np.nan)), "has a NaN scale"),
    "NaN zeros": (put(f"{DOWN}.zero", "F16", lambda s: s * np.float16(np.nan)), "has a NaN zero_point"),
    "another shape": (put(f"{DOWN}.shape", "I64", np.array([64, 64])), f"tensor '{DOWN}.scale' (F16 [256, 1]), expected shape [128, 1]"),
    "a huge shape": (put(f"{DOWN}.shape", "I64", np.array([1 << 40, 1 << 40])), "expected two numbers of rows and columns"),
    "a negative shape": (put(f"{DOWN}.shape", "I64", np.array([-64, -128])), "expected two numbers of rows and columns"),
    "a group that does not divide": (put(f"{DOWN}.group_size", "I32", np.array(48, np.int32)), "expected a divisor of the 64 x 128 weights, not 48"),
    "group 0": (put(f"{DOWN}.group_size", "I32", np.array(0, np.int32)), "not 0"),
    "NaN bits": (put(f"{DOWN}.nbits", "F32", np.array(np.nan, np.float32)), "has nbits nan"),
    "bits of another packing": (put(f"{DOWN}.nbits", "I32", np.array(8, np.int32)), "has nbits 8 and packing '4bit_u8'"),
    "an unknown packing": (put(f"{DOWN}.packing", "U8", word("4bit_u64")), "and packing '4bit_u64'"),
    "a long packing": (put(f"{DOWN}.packing", "U8", word("4bit_u8" * 9)), "expected the letters of a word"),
    "quantized scales": (put(f"{DOWN}.quant_scale", "U8", np.array(1, np.uint8)), "has quant_scale true, which is not supported"),
    "plain and packed": (put(f"{DOWN}.weight", "F16", np.ones((64, 128), np.float16)), f"module '{DOWN}' is quantized by"),
    "a tensor too many": (put(f"{DOWN}.extra", "U8", word("x")), f"'{DOWN}.extra' (U8 [1]) is taken by nothing"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_hqq(tmp_path / "m", Settings(4, 32))
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)


def test_a_code_beyond_its_bits(tmp_path: Path) -> None:
    folder = tiny_hqq(tmp_path / "m", Settings(5, 32))
    put(
        f"{DOWN}.W_q",
        "U8",
        lambda w: np.where(np.arange(w.size).reshape(w.shape) == 1000, 32, w).astype("u1"),
    )(folder)
    with pytest.raises(CheckpointError, match="has the code 32 at row 7, column 104, expected at most 31"):
        open_checkpoint(folder).read(f"{DOWN}.weight")
