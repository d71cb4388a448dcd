"""What lies beside the weights: rotations, scales of the cache."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.compressed_tensors.encode import config_of, encode
from fewbit.formats.folder.writer import DiskArray
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.dtype import E4M3, F32, I8
from fewbit.spec.granularity import CHANNEL, TENSOR
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import Scheme
from tests.formats.compressed_tensors.fixture import tiny_compressed
from tests.formats.compressed_tensors.test_checkpoint import DOWN, folder_of
from tests.formats.compressed_tensors.test_malformed import add
from tests.formats.tiny import tiny_config, tiny_weights
from tests.oracles.logits import fold

SIZE = 32


def hadamard(seed: int) -> np.ndarray:
    """Of ones, with random signs, so that it is not its own transposed."""
    rows = np.array([[(-1.0) ** (i & j).bit_count() for j in range(SIZE)] for i in range(SIZE)])
    return rows * np.random.default_rng(seed).choice([-1.0, 1.0], SIZE)


def apply(location: str, inverse: bool) -> dict[str, Any]:
    return {"targets": ["re:.*down_proj"], "location": location, "inverse": inverse}


TRANSFORMS = {
    "config_groups": {
        "v": {"type": "random-hadamard", "head_dim": SIZE, "apply": [apply("input", False), apply("weight_input", True)]},
        "u": {"type": "random-hadamard", "head_dim": SIZE, "apply": [apply("weight_output", False), apply("output", True)]},
    }
}  # fmt: skip


def rotated(folder: Path, divided: bool, scale: float = 1.0) -> tuple[Path, np.ndarray]:
    weight = tiny_weights(tiny_config())[f"{DOWN}.weight"]
    n, k = weight.shape
    v, u = hadamard(1) / np.sqrt(SIZE), hadamard(2) / np.sqrt(SIZE)
    by_columns = (weight.reshape(n, -1, SIZE) @ v).reshape(n, k)  # W V, run by run
    both = (u.T @ by_columns.reshape(-1, SIZE, k)).reshape(n, k)  # then U' of that
    scheme = Scheme(I8, CHANNEL, F32)
    leaves = encode(quantize(both.astype(np.float32), scheme), True)
    factor = scale if divided else np.sqrt(SIZE) * scale
    leaves |= {
        "v_input.weight": DiskArray("F64", v * factor),
        "u_output.weight": DiskArray("F64", u * factor),
    }
    return folder_of(folder, leaves, config_of(scheme, True, transform_config=TRANSFORMS)), weight


@pytest.mark.parametrize("divided", [False, True])
def test_rotations_undo_what_was_done_to_the_weight(tmp_path: Path, divided: bool) -> None:
    folder, weight = rotated(tmp_path / "m", divided)
    # one layer holds the matrices, the other shares them; its own weight is plain here
    checkpoint: Any = open_checkpoint(folder)
    info = checkpoint.tensors[f"{DOWN}.weight"]
    assert [field for field, _ in info.layer.demands()] == ["pre_rotation", "post_rotation"]
    back = fold(checkpoint, dequantize(checkpoint.read(f"{DOWN}.weight")), info.layer)
    assert np.abs(back - weight).max() < 0.01


def test_a_matrix_of_another_length_is_refused(tmp_path: Path) -> None:
    folder, _ = rotated(tmp_path / "m", True, 3.0)
    checkpoint: Any = open_checkpoint(folder)
    with pytest.raises(CheckpointError, match="is no Hadamard matrix: its rows have lengths up to 3"):
        checkpoint.read_auxiliary(checkpoint.tensors[f"{DOWN}.weight"].layer.pre_rotation)


@pytest.mark.parametrize(("stored", "name"), [("k_scale", "k_scale"), ("v_proj.output_scale", "v_scale")])
def test_cache_scales_are_found_under_both_names(tmp_path: Path, stored: str, name: str) -> None:
    folder = tiny_compressed(tmp_path / "m", Scheme(E4M3, TENSOR, F32))
    add(f"model.layers.0.self_attn.{stored}", "F32", np.array([0.5], np.float32))(folder)
    checkpoint: Any = open_checkpoint(folder)
    assert checkpoint.read_auxiliary(f"model.layers.0.self_attn.{name}") == [0.5]


def test_a_cache_scale_is_one_number(tmp_path: Path) -> None:
    folder = tiny_compressed(tmp_path / "m", Scheme(E4M3, TENSOR, F32))
    add("model.layers.0.self_attn.k_scale", "F32", np.array([0.5, 1], np.float32))(folder)
    with pytest.raises(CheckpointError, match="expected one number of type"):
        open_checkpoint(folder)
