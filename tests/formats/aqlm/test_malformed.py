"""What is wrong with an AQLM folder is said with file, tensor and rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.spec.refusal import CheckpointError
from tests.formats.altered import Alter, drop, keys, put, rename
from tests.formats.aqlm.fixture import Settings, tiny_aqlm

AT = "model.layers.0.mlp.down_proj"
CODES, BOOKS, SCALES = (f"{AT}.{leaf}" for leaf in ("codes", "codebooks", "scales"))

CASES: dict[str, tuple[Alter, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format aqlm"),
    "17 bits": (keys(nbits_per_codebook=17), "'nbits_per_codebook' is 17, which is not supported"),
    "no codebook": (keys(num_codebooks=0), "'num_codebooks' is 0, expected a whole number from 1"),
    "another number of codebooks": (keys(num_codebooks=3), "expected shape [output rows / 1, input columns / 8, 3]"),
    "another size of codebook": (keys(nbits_per_codebook=6), "expected shape [2, 64, 1, 8]"),
    "another run": (keys(in_group_size=16), "expected shape [2, 128, 1, 16]"),
    "other rows": (keys(out_group_size=2), "expected shape [2, 128, 2, 8]"),
    "wider codes": (keys(nbits_per_codebook=12), "expected type I16"),
    "a plain module with codes": (keys(linear_weights_not_to_quantize=[f"{AT}.weight"]), f"module '{AT}' is left unquantized by linear_weights_not_to_quantize"),
    "no codes": (drop(CODES), f"module '{AT}' has no tensor 'codes'"),
    "no codebooks": (drop(BOOKS), f"module '{AT}' has no tensor 'codebooks'"),
    "no scales": (drop(SCALES), f"module '{AT}' has no tensor 'scales'"),
    "a scale of another name": (rename(SCALES, f"{AT}.scale"), f"module '{AT}' has no tensor 'scales'"),
    "flat codes": (put(CODES, "I8", lambda c: c[..., 0]), "expected shape [output rows"),
    "a scale too few": (put(SCALES, "F16", lambda s: s[1:]), "expected shape [64, 1, 1, 1]"),
    "a NaN scale": (put(SCALES, "F16", lambda s: s * np.float16(np.nan)), f"tensor '{SCALES}' has a NaN scale"),
    "an infinite codebook": (put(BOOKS, "F16", lambda b: b + np.float16(np.inf)), f"tensor '{BOOKS}' has an infinite codebook"),
    "whole numbers for scales": (put(SCALES, "I32", lambda s: s.astype(np.int32)), "expected type F32 or F16 or BF16"),
    "a weight beside them": (put(f"{AT}.weight", "F32", np.zeros((64, 128), np.float32)), f"module '{AT}' is quantized by the config (2 codebooks"),
    "a tensor too many": (put(f"{AT}.extra", "I32", np.zeros(4, np.int32)), f"'{AT}.extra' (I32 [4]) is taken by nothing"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_aqlm(tmp_path / "m", Settings(2, 7, 8))
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{AT}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)


def test_a_code_that_is_none(tmp_path: Path) -> None:
    folder = tiny_aqlm(tmp_path / "m", Settings(2, 6, 8))
    for wrong in (-33, 64):
        put(CODES, "I8", lambda c, wrong=wrong: np.where(np.arange(c.size).reshape(c.shape) == 40, wrong, c).astype(np.int8))(folder)  # fmt: skip
        with pytest.raises(
            CheckpointError, match=rf"holds {wrong} in tile row 1, which is no code of 6 bits"
        ):
            open_checkpoint(folder).read(f"{AT}.weight")
