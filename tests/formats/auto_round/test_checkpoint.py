"""AutoRound folders: what is written is read, to the bit, in each packing; extra_config chooses by name."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.auto_round.config import (
    AWQ,
    FLOATS,
    FP8,
    FP8_BLOCKS,
    GPTQ,
    AutoRoundConfig,
    Settings,
    read_settings,
)
from fewbit.formats.auto_round.encode import settings_of
from fewbit.formats.folder.files import FolderFiles
from fewbit.formats.folder.writer import DiskArray, safetensors_bytes
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.plain.scheme import BF16
from fewbit.schemes.reference import dequantize, quantize
from tests.formats.auto_round.fixture import tiny_auto_round, tiny_tensor
from tests.formats.gptq.test_malformed import DOWN
from tests.formats.tiny import tiny_config, tiny_weights

FORMS = [
    *(Settings(b, g, s) for b, g, s in itertools.product((2, 3, 4, 8), (-1, 32), (True, False))),
    *(Settings(4, g, s, "int", AWQ) for g, s in itertools.product((-1, 32), (True, False))),
    *(Settings(b, 32, True, "mx_fp", FLOATS) for b in (4, 8)),
    *(Settings(8, 0, True, "fp", FP8_BLOCKS, block) for block in ((128, 128), (48, 32), (16, 16))),
]


@pytest.mark.parametrize("settings", FORMS, ids=str)
def test_what_was_written_is_read(tmp_path: Path, settings: Settings) -> None:
    checkpoint = open_checkpoint(tiny_auto_round(tmp_path / "m", settings, seed=3))
    assert checkpoint.format == "auto_round"
    for name, weight in tiny_weights(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = tiny_tensor(weight, settings)
        assert found.scheme == expected.scheme and settings_of(found, settings.packing) == settings
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        start, stop = (0, 16) if settings.block else (5, 29)
        piece = checkpoint.read(name, start, stop)
        assert np.array_equal(piece.parts["codes"], expected.parts["codes"][start:stop])


@pytest.mark.parametrize("packing", [GPTQ, AWQ, FLOATS, FP8_BLOCKS])
def test_what_auto_round_cannot_say(packing: str) -> None:
    with pytest.raises(ValueError, match="cannot express the scheme u4g32o"):
        settings_of(quantize(np.ones((32, 32), np.float32), U4G32O), packing)


def config(folder: Path, **rules: Any) -> AutoRoundConfig:
    return read_settings(FolderFiles(tiny_auto_round(folder, Settings(4, 32), keys={"extra_config": rules})))


def test_a_name_beats_a_pattern_and_a_plain_name_is_none(tmp_path: Path) -> None:
    rules = {".*down.*": {"bits": 8}, DOWN: {"bits": 2}, "up_proj": {"bits": 3}}
    found = config(tmp_path / "m", **rules)

    def bits(module: str) -> int:
        return found.settings_of(found.rule_of([module])).bits

    assert bits(DOWN) == 2
    assert bits(DOWN.replace("layers.0", "layers.1")) == 8
    assert bits("model.layers.0.mlp.up_proj") == 4


def single(folder: Path, settings: Settings, leaves: dict[str, DiskArray], **keys: Any) -> Any:
    """A folder whose down_proj is replaced by `leaves` and all else is plain."""
    tiny_auto_round(folder, settings, keys=keys)
    held: dict[str, Any] = {n: quantize(w, BF16) for n, w in tiny_weights(tiny_config(), 0).items()}
    del held[f"{DOWN}.weight"]
    held |= {f"{DOWN}.{leaf}": array for leaf, array in leaves.items()}
    (folder / "model.safetensors").write_bytes(safetensors_bytes(held))
    return open_checkpoint(folder)


def test_fp8_of_every_code(tmp_path: Path) -> None:
    codes = np.resize(np.delete(np.arange(256, dtype=np.uint8), (127, 255)), (64, 128))
    scale = np.linspace(0.5, 2, 64, dtype=np.float32)
    leaves = {
        "weight": DiskArray("F8_E4M3", codes), "weight_scale": DiskArray("F32", scale),
        "input_scale": DiskArray("F32", np.array([0.25], np.float32)),
    }  # fmt: skip
    settings = {
        "bits": 8, "group_size": -1, "data_type": "fp", "packing_format": FP8, "act_dynamic": False,
    }  # fmt: skip
    checkpoint = single(tmp_path / "m", Settings(4, 32), leaves, **settings)
    tensor = checkpoint.read(f"{DOWN}.weight")
    assert np.array_equal(tensor.parts["codes"], codes) and str(tensor.scheme) == "e4m3channel"
    layer = checkpoint.tensors[f"{DOWN}.weight"].layer
    assert checkpoint.read_auxiliary(layer.input_quant.scale)[0] == 0.25


def test_nvfp4_divides_by_its_global_scale(tmp_path: Path) -> None:
    packed = np.resize(np.arange(256, dtype=np.uint8), (64, 64))
    leaves = {
        "weight_packed": DiskArray("U8", packed),
        "weight_scale": DiskArray("F8_E4M3", np.full((64, 8), 0x38, np.uint8)),  # 1
        "weight_global_scale": DiskArray("F32", np.array([4], np.float32)),
    }
    settings = {"group_size": 16, "data_type": "nv_fp", "packing_format": FLOATS}
    checkpoint = single(tmp_path / "m", Settings(4, 32), leaves, **settings)
    values = dequantize(checkpoint.read(f"{DOWN}.weight"))
    assert values[0, 2 * 0x21] == 0.5 / 4 and values[0, 2 * 0x21 + 1] == 1 / 4
    assert values[3, 2 * 0x3E] == -4 / 4


def test_a_layer_of_16_bits(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    tiny_auto_round(folder, Settings(4, 32), keys={"extra_config": {"lm_head": {"bits": 16}}})
    assert json.loads((folder / "config.json").read_text())["quantization_config"]["extra_config"]
    assert open_checkpoint(folder).unquantized["lm_head"] == "extra_config 'lm_head' (bits 16)"
