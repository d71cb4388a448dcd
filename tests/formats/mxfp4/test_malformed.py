"""What is wrong with an MXFP4 folder is said with file, tensor and rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.spec.refusal import CheckpointError
from tests.formats.altered import Alter, drop, keys, put, rename
from tests.formats.mxfp4.fixture import tiny_mxfp4

AT = "model.layers.0.mlp.experts"
BLOCKS, SCALES = f"{AT}.down_proj_blocks", f"{AT}.down_proj_scales"
BOTH = f"{AT}.gate_up_proj_blocks"

CASES: dict[str, tuple[Alter, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format mxfp4"),
    "a list of numbers": (keys(modules_to_not_convert=[1]), "'modules_to_not_convert' is [1], expected a list of strings"),
    "skipped experts that are quantized": (keys(modules_to_not_convert=["*.experts"]), f"module '{AT}' is left unquantized by the entry '*.experts'"),
    "no scales": (drop(SCALES), f"module '{AT}' has no tensor 'down_proj_scales'"),
    "no blocks": (drop(BLOCKS), f"module '{AT}' has no tensor 'down_proj_blocks'"),
    "scales of another name": (rename(SCALES, f"{AT}.down_proj_scale"), f"module '{AT}' has no tensor 'down_proj_scales'"),
    "scales of another type": (put(SCALES, "F32", lambda s: s.astype(np.float32)), f"tensor '{SCALES}' (F32 [3, 64, 4]), expected type U8 or F8_E8M0"),
    "scales of another shape": (put(SCALES, "U8", lambda s: s[:, :, :-1]), f"tensor '{SCALES}' (U8 [3, 64, 3]), expected shape [3, 64, 4]"),
    "a NaN scale": (put(SCALES, "U8", lambda s: s | 255), f"tensor '{SCALES}' has the e8m0 code 0xff"),
    "blocks of another type": (put(BLOCKS, "I8", lambda b: b.view(np.int8)), f"tensor '{BLOCKS}' (I8"),
    "blocks of 8": (put(BLOCKS, "U8", lambda b: b[..., :8]), "expected shape [experts, rows, columns / 32, 16]"),
    "an expert too few": (put(BLOCKS, "U8", lambda b: b[:2]), f"tensor '{BLOCKS}' (U8 [2, 64, 4, 16]), expected shape [3, 64"),
    "an odd row": (put(BOTH, "U8", lambda b: b[:, :-1]), "an even number of rows"),
    "a bias of another shape": (put(f"{AT}.down_proj_bias", "BF16", lambda b: b[:, :-1]), "expected shape [3, 64]"),
    "a tensor too many": (put(f"{AT}.extra", "I32", np.zeros(4, np.int32)), f"'{AT}.extra' (I32 [4]) is taken by nothing"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_mxfp4(tmp_path / "m")
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{AT}.1.down_proj.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)
