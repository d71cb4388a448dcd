"""Modules of one rule hold the same leaves, so that a lost scale shows even where the format makes it optional."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.spec.dtype import F32, I4
from fewbit.spec.granularity import group
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import Scheme
from tests.formats.altered import beside, drop, put
from tests.formats.modelopt.fixture import tiny_modelopt

AWQ = Scheme(I4, group(32), F32)
LAST = "model.layers.1.mlp.down_proj"


def refusal(folder: Path) -> str:
    with pytest.raises(CheckpointError) as refused:
        open_checkpoint(folder)
    return str(refused.value)


def test_an_optional_scale_that_one_module_lacks(tmp_path: Path) -> None:
    folder = tiny_modelopt(tmp_path / "m")
    open_checkpoint(folder).close()  # none has it
    beside(folder, "input_scale", "F32", np.ones((), np.float32))
    open_checkpoint(folder).close()  # all have it
    drop(f"{LAST}.input_scale")(folder)
    assert f"module '{LAST}' has no tensor 'input_scale', but 'model.layers.0." in refusal(folder)


def test_a_folded_scale_is_compared_between_layers_alone(tmp_path: Path) -> None:
    """`pre_quant_scale` of down_proj says nothing of q_proj's, whose producer folds it into the norm."""
    folder = tiny_modelopt(tmp_path / "m", AWQ)
    for layer in (0, 1):
        put(f"model.layers.{layer}.mlp.down_proj.pre_quant_scale", "F32", np.ones(128, np.float32))(folder)
    open_checkpoint(folder).close()
    drop(f"{LAST}.pre_quant_scale")(folder)
    assert f"module '{LAST}' has no tensor 'pre_quant_scale', but 'model.layers.0.mlp.down_proj'" in refusal(
        folder
    )
