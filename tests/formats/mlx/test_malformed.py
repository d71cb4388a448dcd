"""What is wrong with an MLX folder is said with file, tensor and rule."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.mlx.config import Settings
from fewbit.spec.refusal import CheckpointError
from tests.formats import edits
from tests.formats.edits import Edit, add, drop, put, rename
from tests.formats.mlx.fixture import tiny_mlx

DOWN = "model.layers.0.mlp.down_proj"


def keys(**changes: object) -> Edit:
    """In both copies."""

    def act(folder: Path) -> None:
        edits.keys("quantization", **changes)(folder)
        edits.keys("quantization_config", **changes)(folder)

    return act


def not_an_object(folder: Path) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization": 4}))


CASES: dict[str, tuple[Edit, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format mlx"),
    "an unknown object": (keys(mystery={}), "key 'mystery' is neither a known key nor a module"),
    "an unknown truth": (keys(sym=False), "key 'sym' is neither a known key nor a module"),
    "bits 7": (keys(bits=7), "'bits' is 7, which is not supported"),
    "bits as text": (keys(bits="4"), "'bits' is '4', expected"),
    "no bits": (keys(bits=...), "'bits' is absent"),
    "bits true": (keys(bits=True), "'bits' is True, expected no object and no truth value"),
    "no group size": (keys(group_size=...), "'group_size' is absent"),
    "group 48": (keys(group_size=48), "'group_size' is 48, which is not supported"),
    "group 16": (keys(group_size=16), "'group_size' is 16, which is not supported for the mode affine"),
    "an unknown mode": (keys(mode="fp3"), "'mode' is 'fp3', which is not supported"),
    "another mode": (keys(mode="mxfp4"), "scales'|expected type U8"),
    "a mode of other bits": (keys(mode="mxfp8"), "expected 32 and 8, since the mode is 'mxfp8'"),
    "another group": (keys(group_size=64), "expected shape"),
    "other bits": (keys(bits=8), "expected shape"),
    "copies that differ": (edits.keys("quantization_config", bits=8), "key 'bits' differs from that of"),
    "no object": (not_an_object, "key 'quantization' is 4, expected an object"),
    "an override with an unknown key": (keys(**{DOWN: {"mystery": 1}}), f"module '{DOWN}': key 'mystery'"),
    "an override with bits 7": (keys(**{DOWN: {"bits": 7}}), f"module '{DOWN}': key 'bits' is 7"),
    "an override that does not fit": (keys(**{DOWN: {"bits": 8, "group_size": 32}}), f"tensor '{DOWN}.scales' (BF16 [64, 4]), expected shape [64, 2]"),
    "false of a packed module": (keys(**{DOWN: False}), f"module '{DOWN}' is packed (it has weight, scales, biases), but"),
    "settings of a plain module": (keys(**{"model.norm": {"bits": 4, "group_size": 32}}), "module 'model.norm' is plain"),
    "no scales": (drop(f"{DOWN}.scales"), f"module '{DOWN}' has no tensor 'scales'"),
    "no biases": (drop(f"{DOWN}.biases"), f"module '{DOWN}' has no tensor 'biases'"),
    "no weight": (drop(f"{DOWN}.weight"), f"module '{DOWN}' has no tensor 'weight'"),
    "scales and biases gone": (lambda f: (drop(f"{DOWN}.scales")(f), drop(f"{DOWN}.biases")(f))[0], f"module '{DOWN}' has no tensor 'scales'"),
    "scales renamed": (rename(f"{DOWN}.scales", f"{DOWN}.scale"), f"module '{DOWN}' has no tensor 'scales'"),
    "scales of another type": (put(f"{DOWN}.scales", lambda s: s, "I16"), f"tensor '{DOWN}.scales' (I16 [64, 4]), expected type F16"),
    "scales of another shape": (put(f"{DOWN}.scales", lambda s: s[:-1]), f"tensor '{DOWN}.scales' (BF16 [63, 4]), expected shape [64, 4]"),
    "biases of another shape": (put(f"{DOWN}.biases", lambda s: s[:, :-1]), f"tensor '{DOWN}.biases' (BF16 [64, 3]), expected shape [64, 4]"),
    "NaN scales": (put(f"{DOWN}.scales", lambda s: s | np.uint16(0x7FFF)), f"tensor '{DOWN}.scales' has a NaN scale"),
    "infinite biases": (put(f"{DOWN}.biases", lambda s: np.full_like(s, 0x7F80)), f"'{DOWN}.biases'"),
    "words of another type": (put(f"{DOWN}.weight", lambda w: w, "I32"), f"tensor '{DOWN}.weight' (I32 [64, 16]), expected type U32"),
    "words cut": (put(f"{DOWN}.weight", lambda w: w[:, :-1]), "no multiple of its group size 32"),
    "a stack of no experts": (put(f"{DOWN}.weight", lambda w: w[None]), "expected shape [1, 64, 4]"),
    "a tensor too many": (add(f"{DOWN}.extra", "I32", np.zeros(4, np.int32)), f"'{DOWN}.extra' (I32 [4]) is taken by nothing"),
    "scales of a norm": (add("model.norm.scales", "F16", np.ones(4, np.float16)), "expected type U32"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_mlx(tmp_path / "m", Settings(4, 32))
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        checkpoint = open_checkpoint(folder)
        checkpoint.read(f"{DOWN}.weight")
    assert all(word in str(refusal.value) for word in (*expected.split("|"), str(folder)))


@pytest.mark.parametrize(("mode", "size", "code"), [("mxfp4", 32, 255), ("nvfp4", 16, 127)])
def test_small_floats_refuse(tmp_path: Path, mode: str, size: int, code: int) -> None:
    folder = tiny_mlx(tmp_path / "m", Settings(4, size, mode))
    put(f"{DOWN}.scales", lambda s: np.full_like(s, code))(folder)
    with pytest.raises(
        CheckpointError, match=f"tensor '{DOWN}.scales' has the .* code 0x.* no finite number"
    ):
        open_checkpoint(folder).read(f"{DOWN}.weight")
    add(f"{DOWN}.biases", "BF16", np.zeros((64, 128 // size), np.uint16))(folder)
    with pytest.raises(
        CheckpointError, match=rf"tensor '{DOWN}.biases' \(BF16.*is taken by nothing in the format mlx"
    ):
        open_checkpoint(folder)


def test_the_option_checks_what_the_checkpoint_is(tmp_path: Path) -> None:
    folder = tiny_mlx(tmp_path / "m", Settings(4, 32))
    assert open_checkpoint(folder, "mlx").format == "mlx"
    with pytest.raises(CheckpointError, match="is in the format 'mlx', but --quantization says 'gptq'"):
        open_checkpoint(folder, "gptq")
