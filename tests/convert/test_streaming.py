"""Large checkpoints: bounded pieces in, several files out, and both make no difference."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.convert import pieces, shards
from fewbit.convert.leaves import Leaf, leaves_of
from fewbit.convert.target import Said
from fewbit.formats.folder.checkpoint import FolderCheckpoint
from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.gptq.config import Settings
from fewbit.formats.gptq.encode import encode
from fewbit.spec.dtype import F16, U4
from fewbit.spec.granularity import group
from fewbit.spec.scheme import Scheme
from tests.convert.folders import converted, stored_tensors, weights
from tests.formats.gptq.fixture import tiny_gptq


@pytest.mark.parametrize("to", ["awq", "compressed-tensors", "gptq", "quark", "gguf", "plain"])
def test_pieces_make_no_difference(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str) -> None:
    source = tiny_gptq(tmp_path / "m", Settings(4, 32, False))
    whole = converted(source, tmp_path / "whole", to)
    read, largest = FolderCheckpoint.read, [0]

    def counted(self: FolderCheckpoint, name: str, start: int = 0, stop: int | None = None) -> Any:
        piece = read(self, name, start, stop)
        largest[0] = max(largest[0], int(np.prod(piece.shape)))
        return piece

    monkeypatch.setattr(FolderCheckpoint, "read", counted)
    monkeypatch.setattr(pieces, "PIECE_ELEMS", 1)
    small = converted(source, tmp_path / "small", to)
    assert largest[0] == 32 * 128  # of the widest weight: the least that can be cut
    if to == "gguf":
        assert small.read_bytes()[1000:] == whole.read_bytes()[1000:] and weights(small) == weights(whole)
    else:
        assert stored_tensors(small) == stored_tensors(whole)


def test_several_files_with_an_index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = tiny_gptq(tmp_path / "m", Settings(4, 32, True, version=1))
    monkeypatch.setattr(shards, "SHARD_BYTES", 20_000)
    folder = converted(source, tmp_path / "out", "gptq")
    files = sorted(p.name for p in folder.glob("*.safetensors"))
    assert len(files) > 3 and files[0] == f"model-00001-of-{len(files):05d}.safetensors"
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    stored = stored_tensors(folder)
    assert set(index["weight_map"]) == set(stored) and set(index["weight_map"].values()) == set(files)
    assert index["metadata"]["total_size"] == sum(len(raw) for _, _, raw in stored.values())
    assert stored == stored_tensors(source) and weights(folder) == weights(source)


def test_leaves_are_foreseen() -> None:
    """Where rows of the weight lie in each: across for GPTQ's words, everywhere the same for its index."""
    scheme, settings = Scheme(U4, group(32), F16, zero_point=U4), Settings(4, 32, False)
    assert leaves_of(Said(settings, encode), scheme, (104, 64)) == {
        "qweight": Leaf("I32", (8, 104), 1),
        "qzeros": Leaf("I32", (2, 13), 1),
        "scales": Leaf("F16", (2, 104), 1),
        "g_idx": Leaf("I32", (64,), None),
    }


def test_pieces_of_columns_are_written_where_they_belong(tmp_path: Path) -> None:
    array = np.arange(6 * 10, dtype=np.int32).reshape(6, 10)
    made = shards.Shards(tmp_path, {"x": Leaf("I32", (6, 10), 1), "y": Leaf("F16", (5,), 0)})
    done = 0
    for start, stop in ((0, 3), (3, 4), (4, 10)):
        done = made.write("x", DiskArray("I32", array[:, start:stop]), done)
    assert done == 10
    half = np.arange(5, dtype=np.float16)
    assert made.write("y", DiskArray("F16", half[2:]), made.write("y", DiskArray("F16", half[:2]), 0)) == 5
    made.finish()
    found = stored_tensors(tmp_path)
    assert found == {"x": ("I32", (6, 10), array.tobytes()), "y": ("F16", (5,), half.tobytes())}


def test_a_format_that_is_not_written(
    tmp_path: Path, fewbit_cli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    ran = fewbit_cli("convert", tmp_path, tmp_path / "out", "--to", "nonsense")
    assert (
        ran.returncode == 1
        and "--to nonsense: is no format that is written (written are gguf, plain, " in ran.stderr
    )
    ran = fewbit_cli("convert", tmp_path / "nothing", tmp_path / "out", "--to", "awq")
    assert ran.returncode == 1 and "Traceback" not in ran.stderr
