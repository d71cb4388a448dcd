"""What is wrong with a QuIP# folder is said with file, tensor and rule."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.folder.writer import DiskArray
from fewbit.schemes.lattice.scheme import E8P12RVQ3B, E8P12RVQ4B
from fewbit.spec.refusal import CheckpointError
from tests.formats.altered import Alter, drop, keys, put, rename, tensors
from tests.formats.quip.fixture import tiny_quip

AT = "model.layers.0.mlp.down_proj"
QKV = "model.layers.0.self_attn.qkv_proj"
params = partial(keys, inside="quip_params")


def number(leaf: str, kind: str, value: Any) -> Alter:
    return tensors(lambda held: held.update({f"{AT}.{leaf}": DiskArray(kind, np.array(value))}))


def wrong(leaf: str, kind: str, value: Any) -> Alter:
    return put(f"{AT}.{leaf}", kind, value)


CASES: dict[str, tuple[Alter, str]] = {
    "an unknown key": (params(mystery=1), "key 'mystery' is unknown for the format quip"),
    "another codebook": (params(codebook="D4"), "key 'codebook' is 'D4', which is not supported"),
    "codes numbered otherwise": (params(codebook_version=0), "key 'codebook_version' is 0, expected 1 for the codebook E8P12"),
    "a low-rank term": (params(lora_rank=8), "key 'lora_rank' is 8, which is not supported"),
    "split outliers": (params(outlier_channel_split=True), "key 'outlier_channel_split' is True, which is not supported"),
    "codes of 16 bits": (params(idx_dtype="torch.int16"), "key 'idx_dtype' is 'torch.int16', which is not supported"),
    "another model version": (params(model_version=0), "key 'model_version' is 0, which is not supported"),
    "no codes": (drop(f"{AT}.Qidxs"), f"module '{AT}' has no tensor 'Qidxs'"),
    "no signs of inputs": (drop(f"{AT}.SU"), f"module '{AT}' has no tensor 'SU'"),
    "no signs of outputs": (drop(f"{AT}.SV"), f"module '{AT}' has no tensor 'SV'"),
    "no scale": (rename(f"{AT}.Wscale", f"{AT}.scale"), f"module '{AT}' has no tensor 'Wscale'"),
    "no number": (drop(f"{AT}.codebook_id"), f"module '{AT}' has no tensor 'codebook_id'"),
    "another number": (number("codebook_id", "I64", 17), "expected 7, since "),
    "codes of another type": (wrong("Qidxs", "I32", lambda q: q.view(np.int32)), "expected type I64"),
    "rows that make no tile": (wrong("Qidxs", "I64", lambda q: q[:-8]), "N % 16 = 0 and K % 64 = 0"),
    "columns that make no tile": (wrong("Qidxs", "I64", lambda q: q[:, :-1]), "N % 16 = 0 and K % 64 = 0"),
    "codes of a vector": (wrong("Qidxs", "I64", lambda q: q.reshape(-1)), "a matrix of codes of 16 bits for runs of 8"),
    "columns too many": (wrong("Qidxs", "I64", lambda q: np.concatenate([q, q], 1)), "expected shape [256]"),
    "no scaleWH": (params(rescale_WH=True), "has no tensor 'scaleWH'"),
    "scaleWH unsaid": (wrong("scaleWH", "F32", np.ones(128, np.float32)), f"'{AT}.scaleWH' (F32 [128]) is taken by nothing"),
    "scales of what is not fused": (wrong("fuse_scales", "F32", np.ones(2, np.float32)), f"'{AT}.fuse_scales' (F32 [2]) is taken by nothing"),
    "a NaN scale": (number("Wscale", "F32", np.float32(np.nan)), f"tensor '{AT}.SV' has the value nan at [0]"),
    "a factor that is no square": (wrong("had_left", "F32", np.ones((2, 4), np.float32)), "a square matrix whose extent divides 128"),
    "a factor that does not divide": (wrong("had_right", "F32", np.eye(3, dtype=np.float32)), "divides 64 into a power of two"),
    "a factor that does not rotate": (wrong("had_left", "F32", np.ones((2, 2), np.float32)), "is no orthogonal matrix"),
    "a weight beside the codes": (wrong("weight", "F16", np.zeros((64, 128), np.float16)), "but it also holds the tensor"),
    "a tensor too many": (wrong("A", "F16", np.zeros((64, 8), np.float16)), f"'{AT}.A' (F16 [64, 8]) is taken by nothing"),
}  # fmt: skip


def read(folder: Path) -> None:
    checkpoint = open_checkpoint(folder)
    for name in checkpoint.tensors:
        checkpoint.read(name)
    for name in checkpoint.auxiliary:  # type: ignore[attr-defined]
        checkpoint.read_auxiliary(name)  # type: ignore[attr-defined]


def refusal(folder: Path, act: Alter) -> str:
    act(folder)
    with pytest.raises(CheckpointError) as refused:
        read(folder)
    assert str(folder) in str(refused.value)
    return str(refused.value)


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    act, expected = CASES[case]
    assert expected in refusal(tiny_quip(tmp_path / "m", num_hidden_layers=1), act)


def test_a_hadamard_matrix_of_no_power_of_two(tmp_path: Path) -> None:
    """Its factor is in a table of the tool, and not in the folder."""
    folder = tiny_quip(tmp_path / "m", intermediate_size=192, num_hidden_layers=1)
    said = refusal(folder, lambda _: None)
    assert (
        f"'{AT.replace('down', 'gate')}' is rotated by a Hadamard matrix of order 192, no power of two"
        in said
    )
    assert "holds no 'had_right'" in said


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (drop(f"{QKV}.fuse_scales"), f"module '{QKV}' has no tensor 'fuse_scales'"),
        (put(f"{QKV}.bias", "F16", np.zeros(128, np.float16)), "has a bias beside fuse_scales"),
        (put(f"{QKV}.fuse_scales", "F32", np.ones(2, np.float32)), "expected shape [3]"),
    ],
)
def test_fused_projections(tmp_path: Path, act: Alter, expected: str) -> None:
    assert expected in refusal(tiny_quip(tmp_path / "m", fused=True, num_hidden_layers=1), act)


def test_fused_projections_of_another_model(tmp_path: Path) -> None:
    folder = tiny_quip(tmp_path / "m", fused=True, num_hidden_layers=1)
    said = refusal(folder, lambda f: (f / "config.json").write_text((f / "config.json").read_text().replace('"num_key_value_heads": 2', '"num_key_value_heads": 4')) and None)  # fmt: skip
    assert "has 128 rows, expected 64 + 64 + 64 by the model's config" in said


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"merge_suv": True}, "key 'merge_suv' is True, which is not supported"),
        ({"per_channel": True}, "key 'per_channel' is True, which is not supported"),
        ({"opt_resid_scale": -1}, "key 'opt_resid_scale' is -1, expected a finite number above 0"),
        ({"codebook": "HI"}, "key 'codebook' is 'HI', which is not supported"),
        ({"codebook": "E8P12"}, "expected type I16"),
        ({"modules_to_not_convert": ["down_proj"]}, "left unquantized by modules_to_not_convert 'down_proj'"),
    ],
)
@pytest.mark.parametrize("scheme", [E8P12RVQ3B, E8P12RVQ4B])
def test_settings_of_quip_for_all(
    tmp_path: Path, scheme: Any, changes: dict[str, Any], expected: str
) -> None:
    folder = tiny_quip(tmp_path / "m", scheme, in_order=True, num_hidden_layers=1)
    assert expected in refusal(folder, keys(**changes))
