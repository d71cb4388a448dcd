"""Every tensor of the disk is in one place, and whole: what no format should ever leave open is proved all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.account import account
from fewbit.formats.folder.resolve import Resolution, Resolved, plain
from fewbit.formats.folder.safetensors import DiskTensor, read_header
from fewbit.formats.folder.writer import DiskArray, safetensors_bytes
from fewbit.spec.refusal import CheckpointError
from tests.formats.altered import put
from tests.formats.modelopt.fixture import tiny_modelopt


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[dict[str, DiskTensor]]:
    """A matrix and a stack of three."""
    arrays = {"a.weight": np.ones((4, 2), np.float32), "stack": np.ones((3, 4, 2), np.float32)}
    path = tmp_path / "model.safetensors"
    path.write_bytes(safetensors_bytes({name: DiskArray("F32", array) for name, array in arrays.items()}))
    file = CheckedFile(path)
    yield read_header(file)
    file.close()


def resolution(*tensors: DiskTensor) -> Resolution:
    claims = {str(i): plain(tensor, "a test", str(i)) for i, tensor in enumerate(tensors)}
    assert all(isinstance(claim, Resolved) for claim in claims.values())
    return Resolution(tensors=claims)


def test_all_is_used(disk: dict[str, DiskTensor]) -> None:
    stack = disk["stack"]
    found = account(resolution(disk["a.weight"], *(stack.at(i) for i in range(3))), disk)
    assert set(found.weights) == {"a.weight", "stack"} and found.count == 2 and not found.explained


def test_an_expert_is_left_out(disk: dict[str, DiskTensor]) -> None:
    used = resolution(disk["a.weight"], disk["stack"].at(0), disk["stack"].at(2))
    with pytest.raises(
        CheckpointError, match=r"tensor 'stack' \(F32 \[3, 4, 2\]\) is used for 2 of the 3 matrices"
    ):
        account(used, disk)


def test_a_tensor_is_in_no_place_or_two(disk: dict[str, DiskTensor]) -> None:
    stack = [disk["stack"].at(i) for i in range(3)]
    with pytest.raises(
        CheckpointError, match=r"tensor 'a\.weight' .* is taken by nothing, expected one use of it"
    ):
        account(resolution(*stack), disk)
    twice = resolution(disk["a.weight"], *stack)
    twice.explained["a.weight"] = "rightly unused"
    with pytest.raises(CheckpointError, match=r"tensor 'a\.weight' .* is taken in two ways at once"):
        account(twice, disk)


def test_a_quantized_module_holds_nothing_else(tmp_path: Path) -> None:
    """A float that no rule knows, beside codes: it was renamed, or says something that would be lost."""
    folder = tiny_modelopt(tmp_path / "m")
    put("model.layers.0.mlp.down_proj.bias", "F32", np.zeros(64, np.float32))(folder)
    open_checkpoint(folder).close()
    put("model.layers.0.mlp.down_proj.k_scale_old", "F32", np.ones(1, np.float32))(folder)
    with pytest.raises(
        CheckpointError, match=r"down_proj\.k_scale_old' .* is taken by nothing in the format modelopt"
    ):
        open_checkpoint(folder)
