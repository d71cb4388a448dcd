"""Tiny models whose every weight is known: written in a format, read back, and compared with a dequantization of a few lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.kernels.backend import open_backend
from fewbit.loader.open import open_model
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.cell import Platform
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights
from tests.models.tiny import ArrayCheckpoint, Driver, runner_of

Encode = Callable[[QuantTensor], dict[str, DiskArray]]
REFERENCE = open_backend("reference", Platform("bare", frozenset()))


def spread(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """A random matrix whose rows have magnitudes from 0.1 to 10, so that a swapped, missing or shared scale shows."""
    rng = np.random.default_rng(seed)
    rows = 10.0 ** rng.uniform(-1, 1, (shape[0], 1))
    return (rng.standard_normal(shape) * rows / np.sqrt(shape[1])).astype(np.float32)


def tiny_dense(seed: int = 0, **changes: Any) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Config and weights of two layers of width 256; projections have rows of unlike magnitude."""
    sizes = {
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
    }
    config = tiny_config(**{**sizes, **changes})
    weights = tiny_weights(config, seed)
    for index, name in enumerate(n for n, w in weights.items() if "proj" in n and w.ndim == 2):
        weights[name] = spread(weights[name].shape, seed + index)
    return config, weights


def store(
    folder: Path,
    config: Mapping[str, Any],
    weights: Mapping[str, np.ndarray],
    tensor_of: Callable[[str], tuple[Scheme, Encode] | None],
    declared: Mapping[str, Any] | None,
) -> dict[str, QuantTensor]:
    """Writes the folder; gives every weight as it was meant. `tensor_of`: scheme and encoder of a weight, None for BF16."""
    folder.mkdir(parents=True, exist_ok=True)
    meant: dict[str, QuantTensor] = {}
    stored: dict[str, DiskArray] = {}
    for name, weight in weights.items():
        found = tensor_of(name)
        if found is None:
            meant[name] = quantize(weight, BF16)
            stored[name] = as_disk(meant[name])
        else:
            scheme, encode = found
            meant[name] = quantize(weight, scheme)
            stored |= {f"{name.removesuffix('weight')}{leaf}": a for leaf, a in encode(meant[name]).items()}
    write_weights(folder, stored)
    write_tiny_files(folder, dict(config))
    if declared is not None:
        write_json(folder / "config.json", {**config, "quantization_config": dict(declared)})
    return meant


def table(folder: Path) -> dict[str, str]:
    """Canonical module to scheme, of all matrices."""
    return {
        name.removesuffix(".weight"): info.scheme.name
        for name, info in open_model(folder).tensors.items()
        if len(info.shape) == 2
    }


def assert_weights(folder: Path, meant: Mapping[str, QuantTensor]) -> None:
    """Every weight that is read is the one that was meant, to the bit."""
    checkpoint = open_model(folder)
    assert checkpoint.tensors.keys() == meant.keys()
    for name, tensor in meant.items():
        ours, theirs = dequantize(checkpoint.read(name)), dequantize(tensor)
        assert np.array_equal(ours.view(np.uint32), theirs.view(np.uint32)), name


def logits(checkpoint: Any, tokens: list[int] | None = None) -> np.ndarray:
    """[tokens, vocab] on the reference backend."""
    return Driver(runner_of(checkpoint, REFERENCE)).logits({0: tokens or list(range(8, 40))})[0]


def expected_logits(
    config: Mapping[str, Any], meant: Mapping[str, QuantTensor], tokens: list[int] | None = None
) -> np.ndarray:
    """Of the dequantized weights, each in a matrix of its own: nothing of merging, packing or formats is in it."""
    plain = ArrayCheckpoint(str(config["model_type"]), dict(config), dict(meant)).dequantized()
    return logits(plain, tokens)


def assert_logits(folder: Path, config: Mapping[str, Any], meant: Mapping[str, QuantTensor]) -> None:
    ours, theirs = logits(open_model(folder)), expected_logits(config, meant)
    assert np.isfinite(ours).all()
    error = np.abs(ours - theirs).max() / np.abs(theirs).max()
    assert error < 1e-5, f"logits are off by {error:.2e}"
