"""Rotary frequencies of every type against transformers' own functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import transformers
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from fewbit.layers.rope import Rope
from fewbit.spec.refusal import CheckpointError

LLAMA3 = {
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}
YARN = {"factor": 4.0, "original_max_position_embeddings": 32768}
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "linear": ("linear", {"factor": 3.0}),
    "llama3": ("llama3", LLAMA3),
    "llama3_32": ("llama3", LLAMA3 | {"factor": 32.0}),
    "yarn": ("yarn", YARN),
    "yarn_given_factor": ("yarn", YARN | {"attention_factor": 1.25}),
    "yarn_mscale": ("yarn", YARN | {"mscale": 0.707, "mscale_all_dim": 1.0}),
    "yarn_ramp": ("yarn", YARN | {"beta_fast": 16, "beta_slow": 2, "truncate": False}),
    "yarn_short_context": ("yarn", {"factor": 2.0, "original_max_position_embeddings": 16}),
}


@pytest.mark.parametrize("theta", [10000.0, 500000.0, 1000000.0])
@pytest.mark.parametrize("dim", [32, 64, 80, 128])
@pytest.mark.parametrize("case", CASES)
def test_equals_transformers_to_the_last_place(case: str, dim: int, theta: float) -> None:
    kind, given = CASES[case]
    parameters = {"rope_type": kind, "rope_theta": theta} | given
    config = transformers.LlamaConfig(
        hidden_size=dim, num_attention_heads=1, rope_parameters=dict(parameters)
    )
    expected, scale = ROPE_INIT_FUNCTIONS[kind](config, None)
    ours = Rope(dim, theta, parameters)
    ours.check()
    assert ours.inv_freq().dtype == np.float32
    # blends subtract, so the few units in the last place are of the plain frequency
    np.testing.assert_allclose(ours.inv_freq(), expected.numpy(), rtol=2e-6)
    assert ours.scale() == pytest.approx(scale, rel=1e-12)


def test_default_frequencies() -> None:
    assert Rope(4, 100.0, {}).inv_freq() == pytest.approx([1.0, 0.1])
    assert Rope(4, 100.0, {}).scale() == 1.0


@pytest.mark.parametrize(
    ("scaling", "text"),
    [
        (
            {"rope_type": "longrope"},
            "rope_type 'longrope', which is not supported; supported: default, linear, llama3, yarn",
        ),
        ({"type": "dynamic", "factor": 2.0}, "rope_type 'dynamic'"),
        ({"rope_type": "linear"}, "lacks factor"),
        (
            {"rope_type": "llama3", "factor": 8.0},
            "lacks low_freq_factor, high_freq_factor, original_max_position_embeddings",
        ),
        ({"rope_type": "yarn", **YARN, "surprise": 1}, "has surprise = 1, which is not supported"),
        ({"rope_type": "linear", "factor": float("nan")}, "factor = nan; expected a finite number"),
        ({"rope_type": "linear", "factor": 0}, "factor = 0; expected a number above 0"),
        ({"rope_type": "linear", "factor": "two"}, "factor = 'two'"),
    ],
)
def test_refusals_name_key_and_value(scaling: dict[str, Any], text: str) -> None:
    with pytest.raises(CheckpointError) as error:
        Rope(64, 10000.0, scaling).check()
    assert text in str(error.value)
