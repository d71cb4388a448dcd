"""Every scheme in a whole model: the cpu backend against the reference, and what activations in 8 bits do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fewbit.kernels.backend import Backend
from fewbit.loader import LoadOptions, load_model, prepare
from fewbit.schemes import SCHEMES
from tests.models.tiny import Driver, plain_llama, runner_of

TOKENS = {0: list(range(40)), 1: [7], 2: list(range(100, 109))}


def logits(checkpoint: Any, backend: Backend) -> np.ndarray:
    driver = Driver(runner_of(checkpoint, backend))
    first = driver.logits(TOKENS)
    second = driver.logits({1: [9], 0: [3]})
    return np.concatenate([*first, *second])


def relative_error(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.abs(a - b).max() / np.abs(b).max())


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("scheme", sorted(SCHEMES))
def test_cpu_equals_reference(scheme: str, tied: bool, backends: Any) -> None:
    """Head and embedding included. The bf16 cache turns last-place differences into half a step of bf16 here and there."""
    everywhere = {name: SCHEMES[scheme] for name in ("proj", "embed", "lm_head")}
    checkpoint = plain_llama(everywhere, tied=tied, hidden=256, inner=512)
    assert (
        relative_error(logits(checkpoint, backends("cpu")), logits(checkpoint, backends("reference"))) < 2e-3
    )


def test_mixed_projections_on_the_cpu(backends: Any) -> None:
    """Blocks side by side write their columns of one buffer, without a barrier between them."""
    parts = {
        "q_proj": "u4g32ot",
        "k_proj": "u4g32ot",
        "v_proj": "i6g16t",
        "gate": "i4g32",
        "up": "bf16",
        "down": "i8g32",
    }
    checkpoint = plain_llama(
        {part: SCHEMES[name] for part, name in parts.items()}, bias=True, hidden=256, inner=512
    )
    assert (
        relative_error(logits(checkpoint, backends("cpu")), logits(checkpoint, backends("reference"))) < 2e-3
    )


def test_rows_that_do_not_fill_a_panel(backends: Any) -> None:
    """Heads of 16: k and v have 32 rows, q and up 64 and 72; a vocabulary of 160 and an inner size of 72."""
    checkpoint = plain_llama(hidden=64, inner=72)
    assert (
        relative_error(logits(checkpoint, backends("cpu")), logits(checkpoint, backends("reference"))) < 2e-3
    )


def test_a_tied_embedding_is_packed_once(backends: Any) -> None:
    everywhere = {name: SCHEMES["i8g32"] for name in ("proj", "embed")}
    loaded = load_model(plain_llama(everywhere, tied=True), backends("cpu"))
    model: Any = loaded.model
    assert model._embedding.weight is model._head.blocks[0].weight


def test_activations_of_8_bits_are_used_where_a_scheme_has_them_and_told_where_not(backends: Any) -> None:
    checkpoint, cpu = plain_llama({"proj": SCHEMES["u4g32o"]}), backends("cpu")
    prepared = prepare(checkpoint, cpu.selector, "8")
    kernels = {m.spec.kind: m.blocks[0].choice.row_for(1).activation for m in prepared.linears}
    assert kernels == {"qkv": "i8g32", "o": "i8g32", "gate_up": "i8g32", "down": "i8g32", "head": "f32"}
    assert len(prepared.notes) == 1 and "f32 keeps 16-bit activations" in prepared.notes[0]

    exact = logits(checkpoint, cpu)
    runner = runner_of(checkpoint, cpu)
    runner.model = load_model(checkpoint, cpu, LoadOptions(activations="8")).model
    driver = Driver(runner)
    coarse = np.concatenate([*driver.logits(TOKENS), *driver.logits({1: [9], 0: [3]})])
    assert 1e-4 < relative_error(coarse, exact) < 0.05
