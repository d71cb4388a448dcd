"""ModelSlim folders: what is written is read, to the bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.resolve import Module, Resolved
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import DiskArray, safetensors_bytes
from fewbit.formats.modelslim.config import Description
from fewbit.formats.modelslim.encode import kind_of
from fewbit.formats.modelslim.resolve import ModelSlimResolver
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.reference import quantize
from tests.formats.gptq.test_malformed import DOWN
from tests.formats.modelslim.fixture import tiny_modelslim, tiny_tensor
from tests.formats.tiny import tiny_config, tiny_weights

FORMS = [
    ("W8A8", 0, 0.0), ("W8A8_DYNAMIC", 0, 0.0), ("W8A16", 0, -7.0), ("W4A16", 32, 2.0), ("W4A16", 0, 1.0), ("W4A4_DYNAMIC", 0, 0.0),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "size", "offset"), FORMS)
def test_what_was_written_is_read(tmp_path: Path, kind: str, size: int, offset: float) -> None:
    checkpoint = open_checkpoint(tiny_modelslim(tmp_path / "m", kind, size, offset=offset, seed=3))
    assert checkpoint.format == "modelslim"
    for name, weight in tiny_weights(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = tiny_tensor(weight, kind, size, offset)
        assert found.scheme == expected.scheme
        assert kind_of(found) == ("W8A16" if "8" in kind[:2] else "W4A16")
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        assert np.array_equal(checkpoint.read(name, 5, 29).parts["codes"], expected.parts["codes"][5:29])


def test_static_activations(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_modelslim(tmp_path / "m", "W8A8"))
    layer = checkpoint.tensors[f"{DOWN}.weight"].layer
    assert layer.input_quant is not None and str(layer.input_quant) == "i8tensor static"
    assert checkpoint.read_auxiliary(layer.input_quant.scale)[0] == 0.5
    assert checkpoint.read_auxiliary(layer.input_quant.zero_point)[0] == 3
    sums = checkpoint.read(f"{DOWN}.weight").parts["codes"].astype(np.float32).sum(1)
    assert np.array_equal(checkpoint.read_auxiliary(layer.quant_bias), -3 * sums)
    assert checkpoint.explained[f"{DOWN}.deq_scale"].startswith("input_scale * weight_scale")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("W8A8_MXFP8", "e4m3g32"), ("W4A4_MXFP4", "e2m1g32"), ("W4A8_MXFP", "e2m1g32")],
)
def test_every_code_of_mx(tmp_path: Path, kind: str, expected: str) -> None:
    stored = np.resize(np.arange(256, dtype=np.uint8), (8, 256))
    four = expected.startswith("e2m1")
    k = 512 if four else 256
    scale = np.resize(np.arange(100, 150, dtype=np.uint8), (8, k // 32))
    path = tmp_path / "m.safetensors"
    leaves = {
        "m.weight": DiskArray("U8" if four else "F8_E4M3", stored),
        "m.weight_scale": DiskArray("U8", scale),
    }
    path.write_bytes(safetensors_bytes(leaves))
    disk = read_header(CheckedFile(path))
    module = Module("m", {name.removeprefix("m."): tensor for name, tensor in disk.items()})
    (claim,) = ModelSlimResolver(Description("a test", dict.fromkeys(disk, kind))).resolve(module)
    assert isinstance(claim, Resolved) and str(claim.scheme) == expected and claim.shape == (8, k)
    codes = np.stack([stored & 15, stored >> 4], axis=-1).reshape(8, k) if four else stored
    assert np.array_equal(claim.parts["codes"].read(0, 8), codes)
    assert np.array_equal(claim.parts["scale"].read(2, 5), scale[2:5])


def test_what_modelslim_cannot_say() -> None:
    with pytest.raises(ValueError, match="ModelSlim cannot express the scheme u4g32o"):
        kind_of(quantize(np.ones((32, 32), np.float32), U4G32O))
