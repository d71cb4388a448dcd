"""What is wrong with a GPTQ folder is said with file, tensor and rule."""

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
from fewbit.formats.gptq.config import Settings
from fewbit.spec.refusal import CheckpointError
from tests.formats.gptq.fixture import tiny_gptq

DOWN = "model.layers.0.mlp.down_proj"


def keys(**changes: Any) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        quantization = config["quantization_config"] | changes
        config["quantization_config"] = {k: v for k, v in quantization.items() if v is not ...}
        (folder / "config.json").write_text(json.dumps(config))

    return act


def tensors(change: Callable[[dict[str, np.ndarray]], Any]) -> Callable[[Path], None]:
    def act(folder: Path) -> None:
        path = folder / "model.safetensors"
        file = CheckedFile(path)
        stored = {name: DiskArray(tensor.kind, tensor.whole()) for name, tensor in read_header(file).items()}
        file.close()
        held = {name: array.array for name, array in stored.items()}
        change(held)
        kinds = {
            np.dtype(t): kind for t, kind in (("i2", "I16"), ("i4", "I32"), ("f2", "F16"), ("u2", "BF16"))
        }
        path.write_bytes(safetensors_bytes({name: DiskArray(kinds[a.dtype], a) for name, a in held.items()}))

    return act


def put(leaf: str, value: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    def change(held: dict[str, np.ndarray]) -> None:
        held[f"{DOWN}.{leaf}"] = np.ascontiguousarray(value(held[f"{DOWN}.{leaf}"]))

    return tensors(change)


def beyond(index: np.ndarray) -> np.ndarray:
    out = index.copy()
    out[7] = 4
    return out


def side_file(folder: Path) -> None:
    (folder / "quantize_config.json").write_text(json.dumps({"bits": 8, "group_size": 32, "desc_act": False}))


CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format gptq"),
    "bits 5": (keys(bits=5), "'bits' is 5, which is not supported"),
    "bits as text": (keys(bits="4"), "'bits' is '4', expected"),
    "no bits": (keys(bits=...), "'bits' is absent"),
    "group 0": (keys(group_size=0), "'group_size' is 0"),
    "group that does not divide": (keys(group_size=48), "no multiple of its group size 48"),
    "another group": (keys(group_size=64), "expected shape"),
    "formats that differ": (keys(format="gptq_v2"), "checkpoint_format 'gptq' and format 'gptq_v2'"),
    "two kinds of marlin": (keys(is_marlin_format=True), "checkpoint_format 'gptq' and is_marlin_format true"),
    "marlin of 8 bits": (keys(checkpoint_format="marlin", bits=8), "is a serialized Marlin checkpoint, which has symmetric codes of 4 bits"),
    "marlin without sym": (keys(checkpoint_format="marlin", sym=False), "is a serialized Marlin checkpoint, which has symmetric codes of 4 bits"),
    "marlin": (keys(checkpoint_format="marlin"), "has no tensor 'B'"),
    "words of 16 bits": (keys(pack_dtype="int16"), "'pack_dtype' is 'int16'"),
    "a rule that is no pattern": (keys(dynamic={"+:(": {}}), "dynamic rule '+:(': is no regular expression"),
    "a rule with an unknown key": (keys(dynamic={"+:x": {"mystery": 1}}), "dynamic rule '+:x': key 'mystery'"),
    "a rule with bits 5": (keys(dynamic={"+:x": {"bits": 5}}), "dynamic rule '+:x': key 'bits' is 5"),
    "a side file that differs": (side_file, "key 'bits' is 4, but"),
    "lm_head true": (keys(lm_head=True), "module 'lm_head' is plain"),
    "sym of other zero points": (keys(checkpoint_format="gptq_v2"), "has the zero point 7 at output row 0"),
    "no scales": (tensors(lambda held: held.pop(f"{DOWN}.scales")), f"module '{DOWN}' has no tensor 'scales'"),
    "scales of another type": (put("scales", lambda s: s.astype(np.int16)), f"tensor '{DOWN}.scales' (I16"),
    "scales of another shape": (put("scales", lambda s: s[:-1]), f"tensor '{DOWN}.scales' (F16 [3, 64]), expected shape [4, 64]"),
    "NaN scales": (put("scales", lambda s: s * np.float16(np.nan)), f"tensor '{DOWN}.scales' has a NaN scale"),
    "words cut": (put("qweight", lambda w: w[:-1]), "no multiple of its group size"),
    "an index out of range": (put("g_idx", beyond), "column 7 is in group 4"),
    "an index cut": (put("g_idx", lambda i: i[:-1]), f"tensor '{DOWN}.g_idx' (I32 [127]), expected shape [128]"),
    "a tensor too many": (tensors(lambda held: held.update({f"{DOWN}.extra": np.zeros(4, np.int32)})), f"'{DOWN}.extra' (I32 [4]) is taken by nothing"),
    "a scale of a plain module": (tensors(lambda held: held.update({"lm_head.scales": np.ones(4, np.float16)})), "module 'lm_head' has no tensor 'qweight'"),
    "plain and packed": (tensors(lambda held: held.update({f"{DOWN}.weight": np.ones((64, 128), np.float16)})), f"module '{DOWN}' is quantized by"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_gptq(tmp_path / "m", Settings(4, 32, True, version=1))
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        checkpoint = open_checkpoint(folder)
        checkpoint.read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)


def test_the_option_checks_what_the_checkpoint_is(tmp_path: Path) -> None:
    folder = tiny_gptq(tmp_path / "m", Settings(4, 32, True))
    assert open_checkpoint(folder, "gptq").format == "gptq"
    with pytest.raises(CheckpointError, match="is in the format 'gptq', but --quantization says 'plain'"):
        open_checkpoint(folder, "plain")
