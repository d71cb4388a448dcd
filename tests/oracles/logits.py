"""Logits of an oracle by the model's own family: weights dequantized, what a layer does beside them folded in."""

from __future__ import annotations

from typing import Any

import numpy as np

from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.dtype import F32
from fewbit.spec.scheme import Scheme
from tests.models.tiny import ArrayCheckpoint, Driver, runner_of
from tests.oracles.oracle import Oracle, rounded


def compute_logits(oracle: Oracle, how: Any, backend: Any) -> np.ndarray:
    """f32 [sequences, tokens, vocab], activations and cache in f32."""
    checkpoint = oracle.checkpoint
    held = {}
    for name, info in checkpoint.tensors.items():
        value = dequantize(checkpoint.read(name))
        value = value if info.scheme.is_plain else rounded(value, how)
        held[name] = quantize(fold(checkpoint, value, info.layer), Scheme(F32))
    driver = Driver(
        runner_of(ArrayCheckpoint(checkpoint.model_type, dict(checkpoint.config), held), backend, F32)
    )
    ids = oracle.reference["input_ids"]
    return np.stack(driver.logits({i: [int(t) for t in row] for i, row in enumerate(ids)}))


def fold(checkpoint: Any, weight: np.ndarray, layer: Any) -> np.ndarray:
    """y = post(W pre(s x)) as one matrix; rotations act on runs of their own length."""
    out = weight
    if layer.pre_rotation:
        out = _rotate(out, checkpoint.read_auxiliary(layer.pre_rotation))
    if layer.pre_scale:
        out = out * checkpoint.read_auxiliary(layer.pre_scale).reshape(1, -1)
    if layer.post_rotation:
        out = _rotate(out.T, checkpoint.read_auxiliary(layer.post_rotation).T).T
    assert not layer.low_rank, "a low-rank term is not folded yet"
    return np.ascontiguousarray(out, np.float32)


def _rotate(weight: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """W R for x -> R x, run by run."""
    n, k = weight.shape
    runs = weight.reshape(n, -1, len(rotation)).astype(np.float64)
    return (runs @ rotation.astype(np.float64)).reshape(n, k).astype(np.float32)
