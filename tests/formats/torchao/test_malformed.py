"""What is wrong with a torchao folder is said with file, tensor and rule."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.spec.refusal import CheckpointError
from tests.formats import edits
from tests.formats.edits import Edit, add, add_metadata, drop, put, put_metadata, rename
from tests.formats.torchao.fixture import tiny_torchao

DOWN = "model.layers.0.mlp.down_proj"
WEIGHT, QDATA, SCALE, ZERO = (
    f"{DOWN}.weight",
    *(f"{DOWN}._weight_{n}" for n in ("qdata", "scale", "zero_point")),
)
keys = partial(edits.keys, "quantization_config")
inner = partial(add_metadata, WEIGHT, "_data")
outer = partial(add_metadata, WEIGHT, "")


def kind(name: str, **data: object) -> Edit:
    return keys(quant_type={"default": {"_type": name, "_version": 2, "_data": data}})


CASES: dict[str, tuple[Edit, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format torchao"),
    "no quant_type": (keys(quant_type=...), "'quant_type' is absent"),
    "several types": (keys(quant_type={"default": {}, "x": {}}), "key 'quant_type' has ['default', 'x']"),
    "a type of no object": (keys(quant_type={"default": "int4"}), "expected one object 'default'"),
    "an unknown config": (kind("Int4WeightOnlyConfig"), "is 'Int4WeightOnlyConfig', which is not supported"),
    "a config with an unknown key": (kind("IntxWeightOnlyConfig", mystery=1), "key 'mystery' is unknown for IntxWeightOnlyConfig"),
    "an unknown mapping": (kind("IntxWeightOnlyConfig", mapping_type={"_data": "ODD"}), "'mapping_type' is 'ODD'"),
    "another config": (kind("Int8WeightOnlyConfig"), "is a 'IntxUnpackedToInt8Tensor', but"),
    "a version of tomorrow": (keys(quant_type={"default": {"_type": "IntxWeightOnlyConfig", "_version": 3, "_data": {}}}), "'_version' is 3"),
    "a skipped module that is packed": (keys(modules_to_not_convert=["mlp"]), "modules_to_not_convert names 'mlp'"),
    "no metadata": (put_metadata(WEIGHT, None), f"module '{DOWN}' is quantized (it has _weight_qdata"),
    "metadata that is no JSON": (put_metadata(WEIGHT, "{"), "is not valid JSON"),
    "metadata that is no object": (put_metadata(WEIGHT, "3"), f"metadata of '{WEIGHT}': is a JSON int"),
    "metadata with an unknown key": (outer(mystery=1), "key 'mystery' is unknown for a torchao tensor"),
    "settings with an unknown key": (inner(mystery=1), "key 'mystery' is unknown for a torchao IntxUnpackedToInt8Tensor"),
    "an unknown type": (outer(_type="NF4Tensor"), "is a 'NF4Tensor', which is not supported"),
    "a plain type": (outer(_type="Tensor"), "is a 'Tensor', which is not supported"),
    "a part more": (outer(_tensor_data_names=["qdata", "scale", "zero_point", "act_pre_scale"]), "has no tensor '_weight_act_pre_scale'"),
    "blocks of one number": (inner(block_size=[32]), "'block_size' is [32], expected two whole numbers"),
    "blocks of 0": (inner(block_size=[1, 0]), "'block_size' is [1, 0]"),
    "blocks that do not divide": (inner(block_size=[1, 48]), "expected whole blocks of [1, 48]"),
    "other blocks": (inner(block_size=[1, 64]), f"tensor '{SCALE}' (BF16 [64, 4]), expected shape [64, 2]"),
    "an unknown target": (inner(target_dtype={"_data": "int9"}), "'target_dtype' is 'int9'"),
    "a target of no object": (inner(target_dtype=4), "'target_dtype' is 4, expected an object"),
    "codes beyond the target": (inner(target_dtype={"_data": "int2"}), f"tensor '{QDATA}' (I8 [64, 128]) has the code"),
    "plain, said to be packed": (put_metadata("lm_head.weight", '{"_type": "Int8Tensor"}'), "module 'lm_head' is plain, but"),
    "no scale": (drop(SCALE), f"module '{DOWN}' has no tensor '_weight_scale', which torchao's IntxUnpackedToInt8Tensor needs"),
    "no codes": (drop(QDATA), f"module '{DOWN}' has no tensor '_weight_qdata'"),
    "the scale renamed": (rename(SCALE, f"{SCALE}s"), "has no tensor '_weight_scale', which torchao's"),
    "a scale of another type": (put(SCALE, lambda s: s.astype(np.int16), "I16"), f"tensor '{SCALE}' (I16 [64, 4]), expected type"),
    "a scale of another shape": (put(SCALE, lambda s: s[:-1]), f"tensor '{SCALE}' (BF16 [63, 4]), expected shape [64, 4]"),
    "a NaN scale": (put(SCALE, lambda s: s | np.uint16(0x7FFF)), f"tensor '{SCALE}' has a NaN scale"),
    "codes of another type": (put(QDATA, lambda q: q.view(np.uint8), "U8"), f"tensor '{QDATA}' (U8 [64, 128]), expected type I8"),
    "a zero point that is none": (put(ZERO, lambda z: z + np.int8(1)), f"tensor '{ZERO}' (I8 [64, 4]) has the zero point 1"),
    "zero points of another shape": (put(ZERO, lambda z: z[:, :1]), f"tensor '{ZERO}' (I8 [64, 1]), expected shape [64, 4]"),
    "plain and packed": (add(WEIGHT, "BF16", np.ones((64, 128), np.uint16)), f"module '{DOWN}' is quantized by"),
    "a tensor too many": (add(f"{DOWN}.extra", "I32", np.zeros(4, np.int32)), f"'{DOWN}.extra' (I32 [4]) is taken by nothing"),
    "a scale of a norm": (add("model.norm._weight_scale", "F32", np.ones(4, np.float32)), "'model.norm"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_torchao(tmp_path / "m")
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        checkpoint = open_checkpoint(folder)
        checkpoint.read(WEIGHT)
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)
