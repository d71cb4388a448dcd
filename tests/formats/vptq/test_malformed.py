"""What is wrong with a VPTQ folder is said with file, tensor and rule."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.spec.refusal import CheckpointError
from tests.formats.altered import Alter, drop, keys, put, rename
from tests.formats.vptq.fixture import tiny_vptq

AT = "model.layers.0.mlp.down_proj"


def layer(**changes: Any) -> Alter:
    """Keys of the module's entry replaced; `...` removes one."""

    def act(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        entries = config["quantization_config"]["config_for_layers"]
        entries[AT] = {k: v for k, v in (entries[AT] | changes).items() if v is not ...}
        (folder / "config.json").write_text(json.dumps(config))

    return act


def no_entry(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]["config_for_layers"][AT]
    (folder / "config.json").write_text(json.dumps(config))


CASES: dict[str, tuple[Alter, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format vptq"),
    "an unknown key of a layer": (layer(mystery=1), "key 'mystery' is unknown for a layer of vptq"),
    "an entry that is none": (keys(config_for_layers={AT: 1}), f"config_for_layers '{AT}': is 1, expected an object"),
    "no entry": (no_entry, f"module '{AT}' is quantized (it has "),
    "indices that are not packed": (layer(is_indice_packed=False), "'is_indice_packed' is False, which is not supported"),
    "vectors along columns": (layer(vector_quant_dim="in"), "'vector_quant_dim' is 'in', which is not supported"),
    "one length": (layer(vector_lens=[8]), "'vector_lens' is [8], expected two whole numbers"),
    "centroids of no power of two": (layer(num_centroids=[6, 15]), "'num_centroids' is 15, expected a power of two"),
    "too many residual ones": (layer(num_res_centroids=[-1, 1 << 17]), "'num_res_centroids' is 131072, expected a power of two"),
    "outliers without vectors": (layer(vector_lens=[-1, 8]), "has outlier_size 8 and for outliers vector_lens -1"),
    "residuals of outliers": (layer(num_res_centroids=[4, 4]), "num_res_centroids 4, which contradict each other or are not supported"),
    "another group": (layer(group_size=50), "expected shape [2, output rows / 8, 10]"),
    "another number of columns": (layer(in_features=127), "the indices of a weight of shape [64, 127]"),
    "another number of rows": (layer(out_features=50), "the indices of a weight of shape [50, 128]"),
    "no indices": (drop(f"{AT}.indices"), f"module '{AT}' has no tensor 'indices'"),
    "no centroids": (drop(f"{AT}.centroids.weight"), f"module '{AT}' has no tensor 'centroids.weight'"),
    "no residual centroids": (drop(f"{AT}.res_centroids.weight"), f"module '{AT}' has no tensor 'res_centroids.weight'"),
    "no outliers": (drop(f"{AT}.outlier_indices"), f"module '{AT}' has no tensor 'outlier_indices'"),
    "no order": (drop(f"{AT}.perm"), f"module '{AT}' has no tensor 'perm'"),
    "no bias of columns": (drop(f"{AT}.weight_bias"), f"module '{AT}' has no tensor 'weight_bias'"),
    "a scale of another name": (rename(f"{AT}.weight_scale", f"{AT}.scale"), f"module '{AT}' has no tensor 'weight_scale'"),
    "an order that is none": (put(f"{AT}.perm", "I16", lambda p: np.where(p == 3, 4, p)), "expected each of the columns 0 to 127 once"),
    "an index of no outlier": (put(f"{AT}.outlier_indices", "I16", lambda i: i - np.int16(1)), "expected less than 6"),
    "other centroids": (put(f"{AT}.centroids.weight", "F16", lambda c: c[:, :-8]), "expected shape [2, 128]"),
    "residuals of another type": (put(f"{AT}.res_centroids.weight", "F32", lambda c: c.astype(np.float32)), "expected type F16"),
    "a NaN centroid": (put(f"{AT}.centroids.weight", "F16", lambda c: c * np.float16(np.nan)), f"tensor '{AT}.centroids.weight' has a NaN codebook"),
    "a plain module with indices": (keys(modules_to_not_convert=[AT]), f"module '{AT}' is left unquantized by modules_to_not_convert"),
    "a tensor too many": (put(f"{AT}.res_indices", "I32", np.zeros(4, np.int32)), f"'{AT}.res_indices' (I32 [4]) is taken by nothing"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_vptq(tmp_path / "m")
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{AT}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)
