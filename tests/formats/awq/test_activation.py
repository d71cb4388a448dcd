"""Activations that divide by scales (AutoAWQ's ScaledActivation): given to the linear that reads them, never dropped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.awq.config import Settings
from fewbit.formats.folder.writer import DiskArray
from fewbit.kernels.backend import open_backend
from fewbit.loader import load_model
from fewbit.platforms.x86.detect import detect
from fewbit.spec.refusal import CheckpointError, RefusedError
from tests.formats.altered import Alter, drop, put, rename, tensors
from tests.formats.awq.fixture import tiny_awq

MLP = "model.layers.0.mlp"
SCALES = f"{MLP}.act.scales"
GOOD = np.linspace(0.5, 8, 128).astype(np.float16)


def scaled(folder: Path, name: str = SCALES) -> Path:
    put_new(name, GOOD)(tiny_awq(folder, Settings(32)))
    return folder


def put_new(name: str, value: np.ndarray) -> Alter:
    return tensors(lambda held: held.update({name: DiskArray("F16", value)}))


def test_the_linear_that_reads_it_has_the_scales(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(scaled(tmp_path / "m"))
    assert checkpoint.tensors[f"{MLP}.down_proj.weight"].layer.pre_scale == SCALES
    assert not checkpoint.tensors[f"{MLP}.up_proj.weight"].layer.pre_scale
    assert not checkpoint.tensors["model.layers.1.mlp.down_proj.weight"].layer.pre_scale
    found = checkpoint.read_auxiliary(SCALES)  # type: ignore[attr-defined]
    assert np.array_equal(found, np.float32(1) / GOOD.astype(np.float32))


@pytest.mark.parametrize(
    ("activation", "reader"),
    [("mlp.act", "mlp.dense_4h_to_h"), ("mlp.gelu_impl", "mlp.dense_4h_to_h"), ("mlp.act", "mlp.c_proj"),
     ("mlp.act", "mlp.fc_out"), ("ffn.act", "ffn.down_proj"), ("activation_fn", "fc2")],
)  # fmt: skip
def test_the_names_of_other_models(tmp_path: Path, activation: str, reader: str) -> None:
    layer = "model.layers.0"
    folder = scaled(tmp_path / "m", f"{layer}.{activation}.scales")
    for leaf in ("qweight", "qzeros", "scales"):
        rename(f"{MLP}.down_proj.{leaf}", f"{layer}.{reader}.{leaf}")(folder)
    info = open_checkpoint(folder).tensors[f"{layer}.{reader}.weight"]
    assert info.layer.pre_scale == f"{layer}.{activation}.scales"


def test_a_model_is_not_run_without_them(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(scaled(tmp_path / "m"))
    assert [*checkpoint.tensors[f"{MLP}.down_proj.weight"].layer.demands()] == [("pre_scale", SCALES)]
    with pytest.raises(
        RefusedError, match=r"down_proj.weight: layer quantization pre_scale is not supported"
    ):
        load_model(checkpoint, open_backend("reference", detect()))


def test_scales_of_1_change_nothing(tmp_path: Path) -> None:
    folder = scaled(tmp_path / "m")
    put(SCALES, "F16", np.ones(128, np.float16))(folder)
    checkpoint = open_checkpoint(folder)
    assert not checkpoint.tensors[f"{MLP}.down_proj.weight"].layer.pre_scale
    assert checkpoint.explained[SCALES] == "every scale is 1"  # type: ignore[attr-defined]


CASES: dict[str, tuple[Alter, str]] = {
    "another length": (put(SCALES, "F16", GOOD[:64]), f"tensor '{SCALES}' (F16 [64]), expected shape [128], one scale for each"),
    "a matrix": (put(SCALES, "F16", GOOD.reshape(2, 64)), "expected a vector of finite numbers other than 0"),
    "a zero": (put(SCALES, "F16", np.where(np.arange(128) == 7, 0, GOOD).astype(np.float16)), "expected a vector of finite numbers other than 0"),
    "a NaN": (put(SCALES, "F16", GOOD * np.float16(np.nan)), "expected a vector of finite numbers other than 0"),
    "whole numbers": (put(SCALES, "I32", np.ones(128, np.int32)), "expected type F32 or F16 or BF16"),
    "nothing that reads it": (rename(SCALES, "model.act.scales"), "module 'model.act' holds scales alone"),
    "a plain reader": (drop(f"{MLP}.down_proj.qweight"), f"module '{MLP}.down_proj' has no tensor 'qweight'"),
    "two readers": (tensors(lambda held: held.update({f"{MLP}.c_proj.{leaf}": held[f"{MLP}.down_proj.{leaf}"] for leaf in ("qweight", "qzeros", "scales")})), f"module '{MLP}.act' holds scales alone"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    act, expected = CASES[case]
    folder = scaled(tmp_path / "m")
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder)
    assert expected in str(refusal.value)
