"""What is wrong with a ModelSlim folder is said with file, tensor and rule."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import DiskArray, safetensors_bytes
from fewbit.spec.refusal import CheckpointError
from tests.formats.modelslim.fixture import tiny_modelslim

DOWN = "model.layers.0.mlp.down_proj"
DESCRIPTION = "quant_model_description.json"
Act = Callable[[Path], None]


def keys(changes: dict[str, Any]) -> Act:
    def act(folder: Path) -> None:
        values = json.loads((folder / DESCRIPTION).read_text()) | changes
        (folder / DESCRIPTION).write_text(json.dumps({k: v for k, v in values.items() if v is not ...}))

    return act


def disk(change: Callable[[dict[str, DiskArray]], Any]) -> Act:
    def act(folder: Path) -> None:
        path = folder / "model.safetensors"
        file = CheckedFile(path)
        held = {name: DiskArray(tensor.kind, tensor.whole()) for name, tensor in read_header(file).items()}
        file.close()
        change(held)
        path.write_bytes(safetensors_bytes(held))

    return act


def put(leaf: str, value: Callable[[np.ndarray], np.ndarray], kind: str = "") -> Act:
    def change(held: dict[str, DiskArray]) -> None:
        old = held[f"{DOWN}.{leaf}"]
        held[f"{DOWN}.{leaf}"] = DiskArray(kind or old.kind, np.ascontiguousarray(value(old.array)))

    return disk(change)


def both(*acts: Act) -> Act:
    def act(folder: Path) -> None:
        for one in acts:
            one(folder)

    return act


def twice(folder: Path) -> None:
    (folder / "quant_model_description_w8a8.json").write_text("{}")


def gone(leaf: str) -> Act:
    return both(disk(lambda held: held.pop(f"{DOWN}.{leaf}")), keys({f"{DOWN}.{leaf}": ...}))


def nan(array: np.ndarray) -> np.ndarray:
    return array * np.float32(np.nan)


CASES: dict[str, tuple[Act, str]] = {
    "an unknown key": (keys({"mystery": 1}), "key 'mystery' is unknown for the format modelslim"),
    "an unknown type": (keys({f"{DOWN}.weight": "W8A8_FLATQUANT"}), f"gives tensor '{DOWN}.weight' the type 'W8A8_FLATQUANT'"),
    "a type that is no text": (keys({f"{DOWN}.weight": ["W8A8"]}), "the type ['W8A8'], which is not supported"),
    "a quantized cache": (keys({"kv_quant_type": "C4"}), "key 'kv_quant_type' is 'C4', which is not supported"),
    "two descriptions": (twice, "is one of 2 descriptions"),
    "a tensor that is not described": (keys({"lm_head.weight": ...}), "does not know the tensor 'lm_head.weight'"),
    "a tensor that is not there": (disk(lambda held: held.pop(f"{DOWN}.weight_scale")), f"gives tensor '{DOWN}.weight_scale' the type 'W8A8', but"),
    "a plain module with a scale": (keys({f"{DOWN}.weight": "FLOAT"}), f"module '{DOWN}' has tensor '{DOWN}.weight_scale'"),
    "types that differ": (keys({f"{DOWN}.weight_scale": "W8A16"}), "of type 'W8A16' beside a weight of type 'W8A8'"),
    "a scale called FLOAT": (keys({f"{DOWN}.weight_scale": "FLOAT"}), "of type 'FLOAT' beside a weight of type 'W8A8'"),
    "no scale": (gone("weight_scale"), f"module '{DOWN}' has no tensor 'weight_scale'"),
    "no offset": (gone("weight_offset"), f"module '{DOWN}' has no tensor 'weight_offset'"),
    "no input scale": (gone("input_scale"), f"module '{DOWN}' has no tensor 'input_scale'"),
    "no deq_scale": (gone("deq_scale"), f"module '{DOWN}' has no tensor 'deq_scale'"),
    "a scale of another shape": (put("weight_scale", lambda s: s[:-1]), f"tensor '{DOWN}.weight_scale' (F32 [63, 1]), expected shape [64, 1]"),
    "a scale of another type": (put("weight_scale", lambda s: s.astype(np.int32), "I32"), f"tensor '{DOWN}.weight_scale' (I32"),
    "a bias of another type": (put("quant_bias", lambda b: b.astype(np.float32), "F32"), f"tensor '{DOWN}.quant_bias' (F32"),
    "a product that is none": (put("deq_scale", lambda d: d + 100), f"tensor '{DOWN}.deq_scale' (I64 [64]), expected input_scale * weight_scale"),
    "NaN scales": (both(put("weight_scale", nan), put("deq_scale", lambda d: d * 0 + 0x7FC00000)), f"'{DOWN}."),
    "a weight of another type": (put("weight", lambda w: w.view(np.uint8), "U8"), f"tensor '{DOWN}.weight' (U8"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_modelslim(tmp_path / "m", "W8A8")
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)


def test_4_bit_values_beyond_4_bits(tmp_path: Path) -> None:
    folder = tiny_modelslim(tmp_path / "m", "W4A16", 32)
    put("weight", lambda w: np.where(np.arange(128) == 9, 8, w).astype(np.int8))(folder)
    with pytest.raises(CheckpointError, match=r"has the value 8 at row 0, column 9, expected 4-bit values"):
        open_checkpoint(folder).read(f"{DOWN}.weight")


def test_a_group_size_that_the_scales_do_not_have(tmp_path: Path) -> None:
    folder = tiny_modelslim(tmp_path / "m", "W4A16", 32, keys={"group_size": 64})
    with pytest.raises(CheckpointError, match=r"weight_scale' .*expected groups of 64"):
        open_checkpoint(folder)
