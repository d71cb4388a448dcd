"""Logits of an oracle by the model's own family: weights dequantized, what a layer does beside them folded in."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fewbit.formats.checkpoint import TensorInfo
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.dtype import F32, DType
from fewbit.spec.layer_quant import LayerQuant
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.models.tiny import ArrayCheckpoint, Driver, runner_of
from tests.oracles.oracle import Oracle, rounded


def compute_logits(oracle: Oracle, how: Any, backend: Any) -> np.ndarray:
    """f32 [sequences, tokens, vocab], activations and cache in f32."""
    checkpoint = oracle.checkpoint
    return logits_of(
        ArrayCheckpoint(checkpoint.model_type, dict(checkpoint.config), _folded(oracle, how)), oracle, backend
    )


def _folded(oracle: Oracle, how: Any) -> dict[str, QuantTensor]:
    checkpoint, held = oracle.checkpoint, {}
    for name, info in checkpoint.tensors.items():
        value = dequantize(checkpoint.read(name))
        value = value if info.scheme.is_plain else rounded(value, how)
        held[name] = quantize(fold(checkpoint, value, info.layer), Scheme(F32))
    return held


def logits_of(checkpoint: Any, oracle: Oracle, backend: Any, cache: DType = F32) -> np.ndarray:
    driver = Driver(runner_of(checkpoint, backend, cache))
    ids = oracle.reference["input_ids"]
    return np.stack(driver.logits({i: [int(t) for t in row] for i, row in enumerate(ids)}))


class Declaring(ArrayCheckpoint):
    """Weights in f32, and the quantization of activations that the oracle's checkpoint declares."""

    oracle: Oracle

    @property
    def tensors(self) -> dict[str, TensorInfo]:
        declared = self.oracle.checkpoint.tensors
        return {
            name: replace(info, layer=LayerQuant(declared[name].layer.input_quant))
            for name, info in super().tensors.items()
        }

    def read_auxiliary(self, name: str) -> np.ndarray:
        return self.oracle.checkpoint.read_auxiliary(name)


def declared_logits(oracle: Oracle, how: Any, backend: Any) -> np.ndarray:
    """With activations quantized as the checkpoint declares."""
    checkpoint = Declaring(oracle.checkpoint.model_type, dict(oracle.checkpoint.config), _folded(oracle, how))
    checkpoint.oracle = oracle
    return logits_of(checkpoint, oracle, backend)


def fold(checkpoint: Any, weight: np.ndarray, layer: Any) -> np.ndarray:
    """All that a layer does as one matrix; rotations act on runs of their own length."""
    out = weight
    if layer.pre_rotation:
        out = _rotate(out, checkpoint.read_auxiliary(layer.pre_rotation))
    if layer.pre_hadamard:
        out = _hadamard(out, checkpoint.read_auxiliary(layer.pre_hadamard))
    if layer.pre_scale:
        out = out * checkpoint.read_auxiliary(layer.pre_scale).reshape(1, -1)
    if layer.post_rotation:
        out = _rotate(out.T, checkpoint.read_auxiliary(layer.post_rotation).T).T
    if layer.post_hadamard:
        out = _hadamard(out.T, checkpoint.read_auxiliary(layer.post_hadamard).T).T
    if layer.post_scale:
        out = out * checkpoint.read_auxiliary(layer.post_scale).reshape(-1, 1)
    assert not layer.low_rank, "a low-rank term is not folded yet"
    return np.ascontiguousarray(out, np.float32)


def _rotate(weight: np.ndarray, rotation: np.ndarray) -> np.ndarray:
    """W R for x -> R x, run by run."""
    n, k = weight.shape
    runs = weight.reshape(n, -1, len(rotation)).astype(np.float64)
    return (runs @ rotation.astype(np.float64)).reshape(n, k).astype(np.float32)


def _hadamard(weight: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """W (R (x) H) for x -> (R (x) H) x, H by sums and differences of halves."""
    n, k = weight.shape
    out = weight.astype(np.float64).reshape(n, len(factor), -1)
    size = out.shape[2]
    half = 1
    while half < size:
        pairs = out.reshape(n, len(factor), -1, 2, half)
        out = np.stack([pairs[..., 0, :] + pairs[..., 1, :], pairs[..., 0, :] - pairs[..., 1, :]], axis=3)
        out, half = out.reshape(n, len(factor), size), half * 2
    turned = np.einsum("nqr,qp->npr", out, factor.astype(np.float64)) / np.sqrt(size)
    return turned.reshape(n, k).astype(np.float32)
