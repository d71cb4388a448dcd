"""Rounding to a named scheme: what is written is what the quantizer gives for the whole tensor, and its error is told."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from fewbit.convert import pieces
from fewbit.convert.report import by_kind, overall
from fewbit.convert.requantize import parse_rounding
from fewbit.convert.run import convert
from fewbit.formats import open_checkpoint
from fewbit.formats.gptq.config import Settings
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.refusal import FewbitError
from tests.convert.folders import same_bits, stored_tensors
from tests.formats.gptq.fixture import tiny_gptq
from tests.formats.plain.fixture import tiny_folder

SCHEMES = {
    "i4g32": "gptq", "u4g32z": "awq", "i8channel": "compressed-tensors", "e4m3channel": "quark", "e4m3tensor": "compressed-tensors",
    "e4m3b128x128": "modelopt", "e2m1g32": "mlx", "e2m1g16s": "modelopt", "u4g32o": "gguf", "i6g16": "compressed-tensors",
}  # fmt: skip


@pytest.mark.parametrize("name", SCHEMES)
def test_as_the_quantizer_does_it_in_one_piece(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(pieces, "PIECE_ELEMS", 1024)  # several pieces a tensor
    source = tiny_folder(tmp_path / "m", "f32")
    done = convert(source, tmp_path / "out", SCHEMES[name], requantize=name)
    before, after = open_checkpoint(source), open_checkpoint(tmp_path / "out")
    kinds = {kind.layer: kind for kind in by_kind(done)}
    for tensor, info in before.tensors.items():
        weight = dequantize(before.read(tensor))
        found = after.read(tensor)
        if "proj" not in tensor:
            assert same_bits(dequantize(found), weight)
            continue
        assert str(found.scheme) == name
        expected = dequantize(quantize(weight, found.scheme))
        if name == "e2m1g16s":
            np.testing.assert_allclose(dequantize(found), expected, rtol=1e-5)
        else:
            assert same_bits(dequantize(found), expected)
        error = done.proof.errors[tensor]
        difference = (dequantize(found).astype(np.float64) - weight).ravel()
        assert error.largest == np.abs(difference).max()
        wanted = np.sqrt(np.square(difference).sum() / np.square(weight.astype(np.float64)).sum())
        assert error.relative_rms == pytest.approx(wanted, rel=1e-12)
        assert info.shape == found.shape
    assert set(kinds) == {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"}
    assert all(kind.count == 2 and kind.error for kind in kinds.values())
    total = overall(kinds.values())
    assert total is not None and 0.001 < total.relative_rms < 0.3


def test_what_is_of_the_scheme_already_is_not_rounded(tmp_path: Path) -> None:
    source = tiny_gptq(tmp_path / "m", Settings(4, 32, True, version=1))
    done = convert(source, tmp_path / "out", "gptq", requantize="i4g32")
    assert done.proof.errors == {} and stored_tensors(tmp_path / "out") == stored_tensors(source)
    done = convert(source, tmp_path / "other", "gptq", requantize="i8g32")
    assert len(done.proof.errors) == 0  # wider codes hold the narrow ones


def test_the_command_prints_what_it_costs(
    tmp_path: Path, fewbit_cli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    source = tiny_gptq(tmp_path / "m", Settings(8, 32, True))
    ran = fewbit_cli("convert", source, tmp_path / "a", "--to", "awq")
    assert ran.returncode == 1 and not (tmp_path / "a").exists()
    assert (
        "AWQ (gemm) cannot express the scheme i8g32 over" in ran.stderr
        and "--requantize SCHEME" in ran.stderr
    )
    ran = fewbit_cli("convert", source, tmp_path / "a", "--to", "awq", "--requantize", "i4g32")
    assert ran.returncode == 0, ran.stderr
    lines = ran.stdout.splitlines()
    assert any(line.startswith("q_proj") and "i8g32 (f16)" in line and "%" in line for line in lines)
    assert any(line.startswith("overall") and "%" in line for line in lines)
    ran = fewbit_cli("convert", source, tmp_path / "b", "--to", "awq", "--requantize", "i4g32", "--json")
    told = json.loads(ran.stdout)
    assert told["lossless"] is False and 0 < told["relative_rms_error"] < 0.2
    assert {layer["layer"] for layer in told["layers"]} >= {"q_proj", "down_proj"}


@pytest.mark.parametrize(
    "name", ["x", "i4", "u4g32", "e8m0channel", "e4m3g32o", "i4g32s", "f16g32", "i4g0", "e4m3b0x8"]
)
def test_what_is_no_scheme(tmp_path: Path, name: str) -> None:
    with pytest.raises(FewbitError, match=f"--requantize {name}: "):
        parse_rounding(name)


def test_a_scheme_that_the_target_has_not(tmp_path: Path) -> None:
    source = tiny_folder(tmp_path / "m", "bf16")
    with pytest.raises(FewbitError, match=r"AWQ .gemm. cannot express the scheme i8g32"):
        convert(source, tmp_path / "out", "awq", requantize="i8g32")
    with pytest.raises(FewbitError, match="cannot be converted to gptq"):
        convert(source, tmp_path / "out", "gptq", requantize="e4m3channel")
    assert not (tmp_path / "out").exists()
