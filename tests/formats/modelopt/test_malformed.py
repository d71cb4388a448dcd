"""What is wrong with a ModelOpt folder is said with file, tensor and rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.spec.refusal import CheckpointError
from tests.formats.altered import Alter, drop, keys, put, rename
from tests.formats.modelopt.fixture import tiny_modelopt

DOWN = "model.layers.0.mlp.down_proj"
SCALE, SECOND = f"{DOWN}.weight_scale", f"{DOWN}.weight_scale_2"
LAYER = {"quant_algo": "NVFP4", "group_size": 16}


def side(**quantization: Any) -> Alter:
    def act(folder: Path) -> None:
        whole = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", **quantization}}
        (folder / "hf_quant_config.json").write_text(json.dumps(whole))

    return act


def mixed(**layers: Any) -> Alter:
    return keys(
        quant_algo="MIXED_PRECISION", quantized_layers={k.replace("__", "."): v for k, v in layers.items()}
    )


ALL = {"model__layers__0": LAYER, "model__layers__1": LAYER}
CASES: dict[str, tuple[Alter, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format modelopt"),
    "an unknown algorithm": (keys(quant_algo="FP3"), "'quant_algo' is 'FP3', which is not supported"),
    "no algorithm": (keys(quant_algo=...), "'quant_algo' is absent"),
    "zero points": (keys(has_zero_point=True), "'has_zero_point' is True, which is not supported"),
    "another group": (keys(group_size=32), "and groups of 32 along K=64"),
    "another algorithm": (keys(quant_algo="FP8", group_size=...), "expected type F8_E4M3"),
    "int4 said of fp4": (keys(quant_algo="W4A16_AWQ"), "expected type F32 or F16 or BF16"),
    "a cache of 3 bits": (keys(kv_cache_scheme={"num_bits": 3, "type": "float"}), "'kv_cache_scheme' is {'num_bits': 3"),
    "two lists that differ": (keys(exclude_modules=["x"]), "'ignore' and 'exclude_modules', which differ"),
    "a side file that differs": (side(group_size=32), "key 'group_size' is 32, but"),
    "a side file with an unknown key": (side(mystery=2), "hf_quant_config.json: quantization: key 'mystery' is unknown"),
    "mixed without layers": (keys(quant_algo="MIXED_PRECISION"), "no quantized_layers, which contradict"),
    "layers without mixed": (keys(quantized_layers={"x": LAYER}), "also quantized_layers, which contradict"),
    "a layer that is no object": (mixed(**ALL, x=4), "quantized_layers 'x': is 4, expected an object"),
    "a layer with an unknown key": (mixed(**ALL, x={**LAYER, "mystery": 1}), "quantized_layers 'x': key 'mystery' is unknown"),
    "a layer that is not named": (mixed(model__layers__1=LAYER), "is quantized, but"),
    "an excluded module that is quantized": (keys(ignore=["*down_proj"]), f"module '{DOWN}' is left unquantized by the entry '*down_proj'"),
    "no scale": (drop(SCALE), f"module '{DOWN}' has no tensor 'weight_scale'"),
    "no second scale": (drop(SECOND), f"module '{DOWN}' has no tensor 'weight_scale_2'"),
    "a scale of another name": (rename(SCALE, f"{DOWN}.scales"), f"module '{DOWN}' has no tensor 'weight_scale'"),
    "both names": (put(f"{DOWN}.weight_scale_inv", "F32", np.ones(1, np.float32)), "both weight_scale and weight_scale_inv"),
    "scales of another type": (put(SCALE, "F16", lambda s: s.astype(np.float16)), f"tensor '{SCALE}' (F16"),
    "scales of another shape": (put(SCALE, "F8_E4M3", lambda s: s[:, :-1]), f"tensor '{SCALE}' (F8_E4M3 [64, 7]), expected one scale"),
    "a NaN scale": (put(SCALE, "F8_E4M3", lambda s: s | 0x7F), f"tensor '{SCALE}' has the e4m3 code"),
    "an infinite second scale": (put(SECOND, "F32", lambda s: s * np.float32(np.inf)), f"tensor '{SECOND}' has an infinite global_scale"),
    "two second scales": (put(SECOND, "F32", np.ones(2, np.float32)), "expected a single number"),
    "codes cut": (put(f"{DOWN}.weight", "U8", lambda w: w[:, :-8]), "expected one scale for each of 64 rows"),
    "a weight of one dimension": (put(f"{DOWN}.weight", "U8", lambda w: w[0]), "expected a matrix"),
    "a pre scale of another length": (put(f"{DOWN}.pre_quant_scale", "F32", np.ones(64, np.float32)), "expected shape [128]"),
    "a tensor too many": (put(f"{DOWN}.extra", "I32", np.zeros(4, np.int32)), f"'{DOWN}.extra' (I32 [4]) is taken by nothing"),
    "a cache scale in the wrong place": (put(f"{DOWN}.k_scale", "U8", np.ones(1, np.uint8)), f"'{DOWN}.k_scale' (U8 [1]) is taken by nothing"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_modelopt(tmp_path / "m")
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)


def test_a_named_layer_is_not_plain(tmp_path: Path) -> None:
    folder = tiny_modelopt(tmp_path / "m", keys={"ignore": []})
    mixed(**ALL, lm_head=LAYER)(folder)
    with pytest.raises(CheckpointError, match=r"module 'lm_head' is plain .* names it in quantized_layers"):
        open_checkpoint(folder)
