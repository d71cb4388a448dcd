"""What is wrong with an AWQ folder is said with file, tensor and rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.awq.config import Settings
from fewbit.spec.refusal import CheckpointError
from tests.formats.awq.fixture import tiny_awq
from tests.formats.gptq.test_malformed import DOWN, keys, put, tensors


def side_file(folder: Path) -> None:
    (folder / "quant_config.json").write_text(
        json.dumps({"w_bit": 4, "q_group_size": 32, "zero_point": False})
    )


def older_names(folder: Path) -> None:
    (folder / "quant_config.json").write_text(json.dumps({"w_bit": 4, "q_group_size": 64}))


CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format awq"),
    "bits 8": (keys(bits=8), "'bits' is 8, which is not supported"),
    "no bits": (keys(bits=...), "'bits' is absent"),
    "no group": (keys(group_size=...), "'group_size' is absent"),
    "group 0": (keys(group_size=0), "'group_size' is 0"),
    "two groups": (keys(q_group_size=64), "group_size 32 and q_group_size 64, which contradict"),
    "group that does not divide": (keys(group_size=48), "no multiple of its group size 48"),
    "another group": (keys(group_size=64), "expected shape"),
    "another version": (keys(version="mystery"), "'version' is 'mystery', which is not supported"),
    "sym and zero_point": (keys(sym=True), "sym true and zero_point true, which contradict"),
    "no zero points": (keys(zero_point=False), "has the zero point"),
    "a side file that differs": (side_file, "key 'zero_point' is True, but"),
    "a side file of another group": (older_names, "key 'group_size' is 32, but"),
    "lm_head true": (keys(lm_head=True), "module 'lm_head' is plain"),
    "a plain module that is packed": (keys(modules_to_not_convert=["down_proj"]), f"module '{DOWN}' is left unquantized by modules_to_not_convert 'down_proj', but its tensor"),
    "no scales": (tensors(lambda held: held.pop(f"{DOWN}.scales")), f"module '{DOWN}' has no tensor 'scales'"),
    "no qzeros": (tensors(lambda held: held.pop(f"{DOWN}.qzeros")), f"module '{DOWN}' has no tensor 'qzeros'"),
    "scales renamed": (tensors(lambda held: held.update({f"{DOWN}.scale": held.pop(f"{DOWN}.scales")})), f"module '{DOWN}' has no tensor 'scales'"),
    "scales of another type": (put("scales", lambda s: s.astype(np.int16)), f"tensor '{DOWN}.scales' (I16"),
    "scales of another shape": (put("scales", lambda s: s[:-1]), f"tensor '{DOWN}.scales' (F16 [3, 64]), expected shape [4, 64]"),
    "NaN scales": (put("scales", lambda s: s * np.float16(np.nan)), f"tensor '{DOWN}.scales' has a NaN scale"),
    "words cut": (put("qweight", lambda w: w[:-1]), "no multiple of its group size"),
    "a vector of words": (put("qweight", lambda w: w.reshape(-1)), "expected a matrix of words"),
    "a tensor too many": (tensors(lambda held: held.update({f"{DOWN}.extra": np.zeros(4, np.int32)})), f"'{DOWN}.extra' (I32 [4]) is taken by nothing"),
    "a scaled activation": (tensors(lambda held: held.update({"model.layers.0.mlp.act.scales": np.full(4, 2, np.float16)})), "tensor 'model.layers.0.mlp.act.scales' (F16 [4]), expected shape [128]"),
    "plain and packed": (tensors(lambda held: held.update({f"{DOWN}.weight": np.ones((64, 128), np.float16)})), f"module '{DOWN}' is quantized by"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("version", "leaf", "expected"),
    [
        ("gemv", "scales", "(F16 [64, 31]), expected shape [64, 32]"),
        ("gemv", "qzeros", "(I32 [64, 3]), expected shape [64, 4]"),
        ("gemv", "qweight", "no multiple of its group size 32"),
        ("gemv_fast", "qweight", "64 at a time along K"),
        ("gemv_fast", "qzeros", "(F16 [32, 63]), expected shape [32, 64]"),
    ],
)
def test_a_column_cut(tmp_path: Path, version: str, leaf: str, expected: str) -> None:
    folder = tiny_awq(tmp_path / "m", Settings(32, True, version))
    put(leaf, lambda array: array[:, :-1])(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder)
    assert f"{DOWN}" in str(refusal.value) and expected in str(refusal.value)


def test_marlin_has_no_zero_points(tmp_path: Path) -> None:
    keys = {"zero_point": True}
    folder = tiny_awq(tmp_path / "m", Settings(32, False, "marlin"), keys=keys, num_key_value_heads=4)
    with pytest.raises(CheckpointError, match="which has no zero points, but zero_point is true"):
        open_checkpoint(folder)


def test_marlin_in_whole_tiles(tmp_path: Path) -> None:
    folder = tiny_awq(tmp_path / "m", Settings(32, False, "marlin"), num_key_value_heads=4)
    put("qweight", lambda words: words[:, :-1])(folder)
    with pytest.raises(CheckpointError, match=f"{DOWN}.qweight' .*expected .*64 outputs at a time"):
        open_checkpoint(folder)


def test_gemv_fast_has_zero_points(tmp_path: Path) -> None:
    folder = tiny_awq(tmp_path / "m", Settings(32, True, "gemv_fast"), keys={"zero_point": False})
    with pytest.raises(CheckpointError, match="which has zero points, but zero_point is false"):
        open_checkpoint(folder)


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_awq(tmp_path / "m", Settings(32))
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)
