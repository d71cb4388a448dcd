"""FP-Quant folders: what is written is read, and the rotation acts as the stored matrix says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.fp_quant.config import Settings
from fewbit.formats.fp_quant.encode import encode
from fewbit.formats.fp_quant.resolve import BACKWARD, FORWARD, SCHEMES
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.arrays import round_bf16, widen_bf16
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor
from tests.formats.altered import Alter, drop, keys, put, rename
from tests.formats.fp_quant.fixture import MXFP4, random_tensor, rotation, tiny_fp_quant
from tests.formats.tiny import tiny_config, tiny_weights

DOWN = "model.layers.0.mlp.down_proj"
FORMS = [
    MXFP4,
    Settings(rotated=64),
    Settings(element="nvfp4", rotated=16),
    Settings(element="nvfp4", rotated=64),
]
PLAIN = Settings(plain=True)


@pytest.mark.parametrize("settings", FORMS, ids=lambda s: f"{s.element}-{s.rotated}")
def test_what_was_written_is_read(tmp_path: Path, settings: Settings) -> None:
    checkpoint = open_checkpoint(tiny_fp_quant(tmp_path / "m", settings, seed=3))
    assert checkpoint.format == "fp_quant"
    for name, weight in tiny_weights(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = random_tensor(weight.shape, settings, 3)
        assert found.scheme == expected.scheme == SCHEMES[settings.element]
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        piece = checkpoint.read(name, 5, 29)
        assert np.array_equal(piece.parts["codes"], expected.parts["codes"][5:29])
        layer, module = checkpoint.tensors[name].layer, name.removesuffix(".weight")
        assert list(layer.demands()) == [("pre_rotation", f"{module}.{FORWARD}")]
        assert (
            layer.input_quant is not None and layer.input_quant.global_scale == f"{module}.act_global_scale"
        )
        assert np.array_equal(
            checkpoint.read_auxiliary(layer.input_quant.global_scale), expected.parts["global_scale"]
        )
        assert checkpoint.explained[f"{module}.{BACKWARD}"] == "the rotation of gradients"


def test_the_rotation_is_that_of_rows(tmp_path: Path) -> None:
    """The layer computes x H with runs of x as rows; a rotation of ours stands before x."""
    folder = tiny_fp_quant(tmp_path / "m")
    checkpoint = open_checkpoint(folder)
    ours = checkpoint.read_auxiliary(f"{DOWN}.{FORWARD}")
    stored = widen_bf16(round_bf16(np.ascontiguousarray(rotation(32).T)))
    x = np.random.default_rng(0).standard_normal(32).astype(np.float32)
    assert np.allclose(ours @ x, x @ stored, atol=1e-6) and np.abs(ours @ x).max() > 0.1
    assert not np.allclose(ours, ours.T)


def test_an_identity_is_no_rotation(tmp_path: Path) -> None:
    folder = tiny_fp_quant(tmp_path / "m")
    put(f"{DOWN}.{FORWARD}", "BF16", round_bf16(np.eye(32, dtype=np.float32)))(folder)
    checkpoint = open_checkpoint(folder)
    assert list(checkpoint.tensors[f"{DOWN}.weight"].layer.demands()) == []
    assert checkpoint.explained[f"{DOWN}.{FORWARD}"] == "the identity"


def test_weights_stored_as_floats(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_fp_quant(tmp_path / "m", PLAIN, seed=1))
    weight = tiny_weights(tiny_config(), 1)[f"{DOWN}.weight"]
    found = checkpoint.read(f"{DOWN}.weight")
    assert str(found.scheme) == "bf16" and np.array_equal(found.parts["codes"], round_bf16(weight))
    assert list(checkpoint.tensors[f"{DOWN}.weight"].layer.demands()) == [
        ("pre_rotation", f"{DOWN}.{FORWARD}")
    ]


@pytest.mark.parametrize(("element", "codes_of_scales"), [("mxfp4", range(255)), ("nvfp4", range(0x7F))])
def test_every_code_with_every_scale(tmp_path: Path, element: str, codes_of_scales: range) -> None:
    settings = Settings(element=element)
    scale = np.resize(np.array(codes_of_scales, np.uint8), (64, 128 // settings.group))
    scale = np.concatenate([scale, np.resize(np.array(codes_of_scales, np.uint8)[::-1], scale.shape)])
    codes = np.tile(np.arange(16, dtype=np.uint8), (128, 8))
    codes[:, 1::2] = codes[:, 1::2][:, ::-1]
    for overall in (1.0, 1 / np.float32(3), 1 / np.float32(10), np.float32(2.0**120), np.float32(2.0**-120)):
        parts = {"codes": codes, "scale": scale, "global_scale": np.array([overall], np.float32)}
        tensor = QuantTensor(SCHEMES[element], (128, 128), parts)
        folder = tiny_fp_quant(tmp_path / "m", settings)
        for leaf, array in encode(tensor, rotation(32)).items():
            put(f"{DOWN}.{leaf}", array.kind, array.array)(folder)
        found = open_checkpoint(folder).read(f"{DOWN}.weight")
        for role, part in parts.items():
            assert np.array_equal(found.parts[role], part), role
        with np.errstate(over="ignore", invalid="ignore"):
            assert np.array_equal(dequantize(found), dequantize(tensor), equal_nan=True)


def test_what_fp_quant_cannot_say() -> None:
    with pytest.raises(ValueError, match="FP-Quant cannot express the scheme u4g32o"):
        encode(quantize(np.ones((32, 32), np.float32), U4G32O), rotation(32))
    tensor = random_tensor((32, 64), MXFP4)
    odd = {**tensor.parts, "global_scale": np.array([0.3], np.float32)}
    with pytest.raises(ValueError, match="no reciprocal of a BF16 number"):
        encode(QuantTensor(tensor.scheme, (32, 64), odd), rotation(32))


CASES: dict[str, tuple[Alter, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format fp_quant"),
    "another element": (keys(forward_dtype="mxfp8"), "key 'forward_dtype' is 'mxfp8', which is not supported"),
    "another size": (keys(hadamard_group_size=16), "key 'hadamard_group_size' is 16, which is not supported with mxfp4"),
    "nvfp4 with quest": (keys(forward_dtype="nvfp4", forward_method="quest"), "which contradict each other"),
    "weights rounded when it runs": (keys(store_master_weights=True), "key 'store_master_weights' is True, which is not supported"),
    "a longer rotation": (keys(hadamard_group_size=64), "hadamard_matrix' (BF16 [32, 32]), expected shape [64, 64]"),
    "another element than stored": (keys(forward_dtype="nvfp4"), ".scales' (U8 [64, 2]), expected shape [64, 4]"),
    "floats that are none": (keys(pseudoquantization=True), "has no tensor 'dqweight'"),
    "a skipped module that is quantized": (keys(modules_to_not_convert=["down_proj"]), "is left unquantized by the entry 'down_proj'"),
    "no codes": (drop(f"{DOWN}.qweight"), f"module '{DOWN}' has no tensor 'qweight'"),
    "no scales": (drop(f"{DOWN}.scales"), f"module '{DOWN}' has no tensor 'scales'"),
    "no global scale": (drop(f"{DOWN}.weight_global_scale"), f"module '{DOWN}' has no tensor 'weight_global_scale'"),
    "no rotation": (rename(f"{DOWN}.{FORWARD}", f"{DOWN}.hadamard"), f"module '{DOWN}' has no tensor '{FORWARD}'"),
    "codes of another type": (put(f"{DOWN}.qweight", "I8", lambda w: w.view(np.int8)), f"tensor '{DOWN}.qweight' (I8 [64, 64]), expected type U8"),
    "scales cut": (put(f"{DOWN}.scales", "U8", lambda s: s[:, :-1]), f"tensor '{DOWN}.scales' (U8 [64, 3]), expected shape [64, 4]"),
    "a NaN scale": (put(f"{DOWN}.scales", "U8", lambda s: s | np.uint8(255)), "0xff"),
    "a global scale of 0": (put(f"{DOWN}.weight_global_scale", "BF16", np.zeros(1, np.uint16)), "is 0.0, expected a finite number other than 0"),
    "plain and packed": (put(f"{DOWN}.weight", "BF16", np.ones((64, 128), np.uint16)), f"module '{DOWN}' is quantized by"),
    "both kinds of codes": (put(f"{DOWN}.dqweight", "BF16", np.ones((64, 128), np.uint16)), f"tensor '{DOWN}.dqweight' (BF16 [64, 128]) is taken by nothing"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_fp_quant(tmp_path / "m")
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)
