"""Activations that a checkpoint declares in 8 bits: logits as the tool has them with its own quantization of activations.

A code that falls on the other side of a tie moves a few logits; on the mean of all a wrong scale, zero point or rounding is ten times
beyond what is allowed here (with scales of max / 127 in place of 127.5, ct-w8a8-int is off by 0.03, not by 0.001).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from fewbit.kernels.cpu.backend import CpuBackend
from fewbit.kernels.selector import Selector
from fewbit.layers.method import choose_linear
from fewbit.models import family
from fewbit.platforms.known import KNOWN
from fewbit.platforms.x86.detect import detection
from fewbit.spec.dtype import BF16
from tests.oracles.logits import declared_logits, logits_of
from tests.oracles.oracle import Oracle
from tests.oracles.store import Store, stores
from tests.oracles.table import CHECKS

Open = Callable[[Store, str], Oracle]


@dataclass(frozen=True)
class Expected:
    logits: str
    mean: float
    largest: float
    told: str


DECLARED = {
    "ct-w8a8-int": Expected("logits", 0.003, 0.06, "activations int8 per token, declared by the checkpoint"),
    "ct-w4a8-int": Expected("logits", 0.001, 0.02, "activations int8 per token, declared by the checkpoint"),
    "ct-w8a8-int-static-asym": Expected(
        "logits", 0.001, 0.04, "activations int8 of a fixed scale and zero point, declared by the checkpoint"
    ),
    "ascend-w8a8-dynamic": Expected(
        "logits_tool", 0.002, 0.2, "activations int8 per token with a zero point, declared by the checkpoint"
    ),
    "ascend-w8a8": Expected(
        "logits_tool",
        0.002,
        0.2,
        "activations int8 of a fixed scale and zero point, declared by the checkpoint",
    ),
}
STORED = [
    (store, name)
    for store in stores()
    if store.name == "whole"
    for name in store.entries()
    if name in DECLARED
]
each = pytest.mark.parametrize(("store", "name"), STORED, ids=[name for _, name in STORED])


@each
def test_the_definition_gives_the_tools_logits(
    store: Store, name: str, oracle: Open, reference_backend: Any
) -> None:
    found, expected = oracle(store, name), DECLARED[name]
    error = np.abs(
        declared_logits(found, CHECKS[name].weights, reference_backend) - found.reference[expected.logits]
    )
    assert error.mean() <= expected.mean and error.max() <= expected.largest, (error.mean(), error.max())


@each
def test_the_kernels_give_the_definitions_logits(
    store: Store, name: str, oracle: Open, reference_backend: Any
) -> None:
    """Keys and values in bf16 on both sides: by themselves they move as many codes as the quantization's own noise."""
    found = oracle(store, name)
    backend = CpuBackend(detection().platform, threads=1)
    ours = logits_of(found.checkpoint, found, backend, BF16)
    error = np.abs(ours - logits_of(found.checkpoint, found, reference_backend, BF16))
    assert error.mean() <= 0.004, error.mean()


@each
@pytest.mark.parametrize("platform", ["x86_avx2", "x86_amx"])
def test_the_choice_follows_the_checkpoint_and_says_so(
    store: Store, name: str, oracle: Open, platform: str
) -> None:
    checkpoint = oracle(store, name).checkpoint
    module = family(checkpoint.model_type)
    spec = module.describe(module.parse(checkpoint.model_type, checkpoint.config, checkpoint.tensors.keys()))
    linear = next(linear for linear in spec.linears if linear.kind == "down")
    for asked, activation in (("auto", "i8token"), ("8", "i8token"), ("16", "")):
        method = choose_linear(linear, checkpoint, Selector(KNOWN[platform]), asked)
        rows = {row.activation for block in method.blocks for _, _, row in block.choice.rows}
        assert rows == {activation} if activation else "i8token" not in rows
        assert all((block.inputs is not None) == bool(activation) for block in method.blocks)
        assert (DECLARED[name].told in method.notes) == bool(activation), method.notes
