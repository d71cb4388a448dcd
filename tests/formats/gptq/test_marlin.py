"""Serialized Marlin: what is written is read, and what is wrong is said."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.gptq.config import Settings
from fewbit.spec.refusal import CheckpointError
from tests.formats.gptq.fixture import tiny_gptq, tiny_tensor
from tests.formats.gptq.test_malformed import DOWN, put, tensors
from tests.formats.tiny import tiny_config, tiny_weights

WIDE = {"num_key_value_heads": 4}  # Marlin needs 64 outputs


def marlin(folder: Path, size: int, seed: int = 0) -> Path:
    return tiny_gptq(folder, Settings(4, size, True, marlin=True), seed=seed, **WIDE)


@pytest.mark.parametrize("older", [False, True])
@pytest.mark.parametrize("size", [-1, 32])
def test_what_was_written_is_read(tmp_path: Path, size: int, older: bool) -> None:
    folder = marlin(tmp_path / "m", size, seed=3)
    if older:
        config = json.loads((folder / "config.json").read_text())
        del config["quantization_config"]["checkpoint_format"]
        config["quantization_config"]["is_marlin_format"] = True
        (folder / "config.json").write_text(json.dumps(config))
    tensors(lambda held: held.update({f"{DOWN}.workspace": np.zeros(16, np.int32)}))(folder)
    checkpoint = open_checkpoint(folder)
    assert checkpoint.explained[f"{DOWN}.workspace"] == "scratch memory of Marlin's kernel"
    for name, weight in tiny_weights(tiny_config(**WIDE), 3).items():
        if "proj" in name:
            found, expected = checkpoint.read(name), tiny_tensor(weight, Settings(4, size, True))
            assert found.scheme == expected.scheme
            for role, part in expected.parts.items():
                assert np.array_equal(found.parts[role], part), role
            assert np.array_equal(checkpoint.read(name, 5, 29).parts["codes"], expected.parts["codes"][5:29])


def test_what_is_wrong(tmp_path: Path) -> None:
    for change, expected in (
        (put("B", lambda words: words[:, :-1]), f"tensor '{DOWN}.B' .*64 outputs at a time"),
        (put("s", lambda scales: scales[:-1]), f"tensor '{DOWN}.s' .*expected shape"),
        (put("s", lambda scales: scales.astype(np.int16)), f"tensor '{DOWN}.s' .*expected type F16"),
        (tensors(lambda held: held.pop(f"{DOWN}.s")), f"module '{DOWN}' has no tensor 's'"),
    ):
        folder = marlin(tmp_path / "m", 32)
        change(folder)
        with pytest.raises(CheckpointError, match=expected):
            open_checkpoint(folder)
