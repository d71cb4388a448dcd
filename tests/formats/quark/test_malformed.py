"""What is wrong with a Quark folder is said with file, tensor and rule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.quark.encode import spec_of
from fewbit.spec.refusal import CheckpointError
from tests.formats.altered import Alter, drop, keys, put, rename
from tests.formats.quark.fixture import UINT4, tiny_quark

DOWN = "model.layers.0.mlp.down_proj"
SCALE, ZERO = f"{DOWN}.weight_scale", f"{DOWN}.weight_zero_point"


def spec(**changes: Any) -> Alter:
    return keys(global_quant_config={"weight": spec_of(UINT4) | changes})


CASES: dict[str, tuple[Alter, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format quark"),
    "an unknown key of the export": (keys(export={"mystery": 1}), "export: key 'mystery' is unknown"),
    "an unknown order": (keys(export={"pack_method": "odd"}), "'pack_method' is 'odd'"),
    "an unknown key of a layer": (keys(global_quant_config={"mystery": 1}), "global_quant_config: key 'mystery' is unknown"),
    "an unknown key of a spec": (spec(mystery=1), "global_quant_config: weight: key 'mystery' is unknown"),
    "an unknown element": (spec(dtype="int3"), "dtype 'int3', which is not supported"),
    "an unknown granularity": (spec(qscheme="per_block"), "'qscheme' is 'per_block'"),
    "groups without a size": (spec(group_size=None), "qscheme 'per_group' and group_size 0, which contradict"),
    "blocks": (spec(block_size=[128, 128]), "key 'block_size' is [128, 128]"),
    "rows of int4": (spec(qscheme="per_channel", group_size=None), "is stored as uint4 per_channel (global_quant_config"),
    "another group": (spec(group_size=64), "expected shape [1, 64]"),
    "three levels": (keys(global_quant_config={"weight": [{}, {}, {}]}), "expected a spec of one or two levels"),
    "two levels of another kind": (keys(global_quant_config={"weight": [spec_of(UINT4), {"dtype": "fp8_e4m3", "qscheme": "per_tensor"}]}), "has the levels uint4 per_group 32 and fp8_e4m3 per_tensor"),
    "a quantized bias": (keys(global_quant_config={"weight": None, "bias": {}}), "asks for a quantized bias"),
    "rotated activations": (keys(algo_config=[{"name": "rotation"}]), "'algo_config' names 'rotation'"),
    "scales of the cache after rotation": (keys(kv_cache_post_rope=True), "'kv_cache_post_rope' is True"),
    "an unknown type": (keys(layer_type_quant_config={"Conv2d": {}}), "names 'Conv2d', which is not supported"),
    "a layer that is no object": (keys(layer_quant_config={"x": 4}), "layer_quant_config 'x': is 4, expected an object"),
    "two entries for a layer": (keys(layer_quant_config={"*": {"weight": spec_of(UINT4)}, "*down_proj": {"weight": None}}), f"for the module '{DOWN}', which differ"),
    "a layer without a spec": (keys(layer_quant_config={"*down_proj": {"weight": None}}), f"module '{DOWN}' is quantized, but layer_quant_config"),
    "an excluded module that is quantized": (keys(exclude=["*down_proj"]), f"module '{DOWN}' is left unquantized by the entry '*down_proj'"),
    "a named module that is plain": (keys(exclude=[], layer_quant_config={"lm_head": {"weight": spec_of(UINT4)}}), "module 'lm_head' is plain"),
    "zero points of symmetric codes": (spec(dtype="int4", symmetric=True), f"tensor '{ZERO}' (I32 [4, 8]) has a zero point other than 0"),
    "no scale": (drop(SCALE), f"module '{DOWN}' has no tensor 'weight_scale'"),
    "no zero point": (drop(ZERO), f"module '{DOWN}' has no tensor 'weight_zero_point'"),
    "a scale of another name": (rename(SCALE, f"{DOWN}.scales"), f"module '{DOWN}' has no tensor 'weight_scale'"),
    "scales of another type": (put(SCALE, "I32", lambda s: s.astype(np.int32)), f"tensor '{SCALE}' (I32"),
    "scales of another shape": (put(SCALE, "F32", lambda s: s[:-1]), f"tensor '{SCALE}' (F32 [3, 64]), expected shape [4, 64]"),
    "zero points of another shape": (put(ZERO, "I32", lambda z: z[:-1]), f"tensor '{ZERO}' (I32 [3, 8]), expected shape [4, 8]"),
    "a NaN scale": (put(SCALE, "F32", lambda s: s * np.float32(np.nan)), f"tensor '{SCALE}' has a NaN scale"),
    "words of another type": (put(f"{DOWN}.weight", "F32", lambda w: w.view(np.float32)), f"tensor '{DOWN}.weight' (F32 [128, 8]), expected type I32"),
    "words cut": (put(f"{DOWN}.weight", "I32", lambda w: w[:-1]), "expected a multiple of the group size 32"),
    "a weight of one dimension": (put(f"{DOWN}.weight", "I32", lambda w: w[0]), "expected a matrix"),
    "a tensor too many": (put(f"{DOWN}.extra", "I32", np.zeros(4, np.int32)), f"'{DOWN}.extra' (I32 [4]) is taken by nothing"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_quark(tmp_path / "m")
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)
