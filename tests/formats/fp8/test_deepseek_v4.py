"""DeepSeek-V4's folders: FP8 layers and FP4 experts with `scale` beside them. They rest on the published layout of the released
checkpoints; the decoder of transformers gives the same numbers for every code and scale."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers.integrations.finegrained_fp8 import Fp8Dequantize

from fewbit.formats import open_checkpoint
from fewbit.formats.fp8.encode import FP4, config_of, encode
from fewbit.schemes.reference import dequantize
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor
from tests.formats.altered import Alter, drop, keys, put, rename
from tests.formats.fp8.deepseek_v4 import LAYERS, tiny_deepseek_v4, tiny_quantized
from tests.formats.tiny import tiny_config

EXPERT = "layers.0.ffn.experts.1.w2"


@pytest.mark.parametrize("inside", [False, True], ids=["beside", "within"])
def test_what_was_written_is_read(tmp_path: Path, inside: bool) -> None:
    where = {"keys": {"expert_dtype": "fp4"}, "expert_dtype": None} if inside else {}
    checkpoint = open_checkpoint(tiny_deepseek_v4(tmp_path / "m", seed=3, **where))
    assert checkpoint.format == "fp8"
    expected = tiny_quantized(tiny_config(), 3)
    quantized = {name for name, info in checkpoint.tensors.items() if not info.scheme.is_plain}
    assert quantized == {f"{name}.weight" for name in expected}
    for name, tensor in expected.items():
        found = checkpoint.read(f"{name}.weight")
        assert found.scheme == tensor.scheme == (FP4 if ".experts." in name else LAYERS)
        for role, part in tensor.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), (
                name,
                role,
            )
    piece = checkpoint.read(f"{EXPERT}.weight", 5, 29)
    assert np.array_equal(piece.parts["codes"], expected[EXPERT].parts["codes"][5:29])
    assert checkpoint.tensors[f"{EXPERT}.weight"].layer.input_quant is not None
    table = checkpoint.read_auxiliary("layers.1.ffn.gate.tid2eid")
    assert table.shape == (288, 2) and set(np.unique(table)) == {0, 1, 2}


def test_every_code_with_every_scale(tmp_path: Path) -> None:
    """All 16 codes in both nibbles with all 255 scales, beside what transformers makes of the same bytes."""
    codes = np.tile(np.arange(16, dtype=np.uint8), (255, 2))
    codes[:, 1::2] = codes[:, 1::2][:, ::-1]
    scale = np.arange(255, dtype=np.uint8).reshape(255, 1)
    leaves = encode(QuantTensor(FP4, (255, 32), {"codes": codes, "scale": scale}))
    folder = tiny_deepseek_v4(tmp_path / "m")
    put(f"{EXPERT}.weight", "I8", leaves["weight"].array)(folder)
    put(f"{EXPERT}.scale", "F8_E8M0", scale)(folder)
    found = open_checkpoint(folder).read(f"{EXPERT}.weight")
    assert np.array_equal(found.parts["codes"], codes) and np.array_equal(found.parts["scale"], scale)
    packed = torch.from_numpy(leaves["weight"].array.copy())
    theirs = Fp8Dequantize(None)._dequantize_one(
        packed, torch.from_numpy(scale).view(torch.float8_e8m0fnu), torch.float32
    ).numpy()  # fmt: skip
    assert np.array_equal(
        dequantize(found)[1:], theirs[1:]
    )  # torch has no number for the smallest power of two
    assert np.array_equal(np.signbit(dequantize(found)), np.signbit(theirs))


def test_a_table_only_for_experts_said_to_be_fp4() -> None:
    with pytest.raises(ValueError, match="FP4 experts beside FP8 layers"):
        config_of(FP4)


def both(folder: Path) -> None:
    keys(expert_dtype="fp8")(folder)


def beside(value: str | None) -> Alter:
    def act(folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps({**config, "expert_dtype": value}))

    return act


CASES: dict[str, tuple[Alter, str]] = {
    "an unknown type of experts": (beside("int2"), "key 'expert_dtype' is 'int2', which is not supported"),
    "two types of experts": (both, "key 'expert_dtype' is 'fp8', but"),
    "experts that nothing announces": (beside(None), "tensor 'layers.0.ffn.experts.0.w1.weight' (I8 [128, 32]), expected type F8_E4M3"),
    "experts said to be fp8": (beside("fp8"), "expected type F8_E4M3"),
    "an expert of FP8": (put(f"{EXPERT}.weight", "F8_E4M3", np.zeros((64, 128), np.uint8)), f"tensor '{EXPERT}.weight' (F8_E4M3 [64, 128]), expected type I8"),
    "a layer of FP4": (put("layers.0.attn.wq_a.weight", "I8", np.zeros((96, 32), np.int8)), "tensor 'layers.0.attn.wq_a.weight' (I8 [96, 32]), expected type F8_E4M3"),
    "no scale": (drop(f"{EXPERT}.scale"), f"module '{EXPERT}' has no tensor 'weight_scale_inv'"),
    "a scale of another name": (rename(f"{EXPERT}.scale", f"{EXPERT}.scales"), f"module '{EXPERT}' has no tensor"),
    "two scales": (put(f"{EXPERT}.weight_scale_inv", "F8_E8M0", np.ones((64, 4), np.uint8)), "has both scale and weight_scale_inv"),
    "scales as floats": (put(f"{EXPERT}.scale", "F32", np.ones((64, 4), np.float32)), "expected type U8 or F8_E8M0"),
    "scales cut": (put(f"{EXPERT}.scale", "F8_E8M0", np.ones((64, 3), np.uint8)), "expected one scale for each of 64 rows and groups of 32 along K=128"),
    "a NaN scale": (put(f"{EXPERT}.scale", "F8_E8M0", np.full((64, 4), 255, np.uint8)), "0xff"),
    "a table of floats": (put("layers.0.ffn.gate.tid2eid", "F32", np.ones((288, 2), np.float32)), "expected type I32 or I64"),
    "a tensor too many": (put(f"{EXPERT}.extra", "I8", np.ones(1, np.int8)), "is taken by nothing"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_deepseek_v4(tmp_path / "m")
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{EXPERT}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)
