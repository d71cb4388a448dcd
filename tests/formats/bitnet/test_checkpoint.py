"""BitNet folders: what is written is read, and weights mean what the layers of transformers compute with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers.integrations import bitnet as reference

from fewbit.formats import open_checkpoint
from fewbit.formats.bitnet.config import Settings
from fewbit.formats.bitnet.encode import encode
from fewbit.formats.bitnet.resolve import BitNetResolver
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.resolve import Module, Resolved
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import DiskArray, safetensors_bytes
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.arrays import round_bf16
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.dtype import F32, I2
from fewbit.spec.granularity import TENSOR
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.bitnet.fixture import ternary, tiny_bitnet
from tests.formats.tiny import tiny_config, tiny_weights

AUTO = Settings(divides=False)
ONLINE = Settings(divides=False, online=True)


def read(folder: Path, leaves: dict[str, DiskArray], settings: Settings) -> tuple[Resolved, QuantTensor]:
    path = folder / "m.safetensors"
    path.write_bytes(safetensors_bytes(leaves))
    (found,) = BitNetResolver(settings).resolve(Module("m", read_header(CheckedFile(path))))
    assert isinstance(found, Resolved)
    return found, QuantTensor(
        found.scheme, found.shape, {r: p.read(0, found.shape[0]) for r, p in found.parts.items()}
    )


def torch_bf16(bits: np.ndarray) -> torch.Tensor:
    return torch.from_numpy(bits.view(np.int16)).view(torch.bfloat16)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_bitnet(tmp_path / "m", seed=3))
    assert checkpoint.format == "bitnet" and list(checkpoint.unquantized) == ["model.embed_tokens", "lm_head"]
    for name, weight in tiny_weights(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = ternary(weight)
        assert found.scheme == expected.scheme and str(found.scheme) == "i2tensor"
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        for start, stop in ((0, 1), (5, 29), (15, 17), (31, 32)):
            assert np.array_equal(
                checkpoint.read(name, start, stop).parts["codes"], expected.parts["codes"][start:stop]
            )


def test_the_reference_packs_the_same_bytes(tmp_path: Path) -> None:
    """Every byte of four codes."""
    bytes_ = np.arange(81)
    codes = np.stack([bytes_ // 3**i % 3 - 1 for i in range(4)]).astype(np.int8)
    tensor = QuantTensor(Scheme(I2, TENSOR, F32), (4, 81), {"codes": codes, "scale": np.ones(1, np.float32)})
    ours = encode(tensor)["weight"].array
    assert np.array_equal(ours, reference.pack_weights(torch.from_numpy(codes.copy())).numpy())
    assert np.array_equal(read(tmp_path, encode(tensor), AUTO)[1].parts["codes"], codes)


@pytest.mark.parametrize("bits", [0x3F80, 0x0080, 0x7A00, 0x3E99, 0xC123])
@pytest.mark.parametrize("divides", [True, False])
def test_the_layers_of_transformers_agree(tmp_path: Path, divides: bool, bits: int) -> None:
    """The identity as input: a bitlinear divides by its scale, an autobitlinear multiplies; both to the rounding of f32."""
    weight = tiny_weights(tiny_config(), 1)["model.layers.0.mlp.down_proj.weight"]
    leaves = encode(ternary(weight)) | {"weight_scale": DiskArray("BF16", np.array([bits], np.uint16))}
    found = dequantize(read(tmp_path, leaves, Settings(divides=divides))[1])
    n, k = weight.shape
    scale = torch_bf16(np.array([bits], np.uint16)).float()
    torch.compiler.set_stance("force_eager")
    try:
        if divides:
            layer: torch.nn.Module = reference.BitLinear(k, n, False, dtype=torch.float32)
            layer.weight = torch.from_numpy(leaves["weight"].array.copy())
        else:
            layer = reference.AutoBitLinear(k, n, False, dtype=torch.float32)
            unpacked = reference.unpack_weights(
                torch.from_numpy(leaves["weight"].array.copy()), torch.float32
            )
            layer.weight = torch.nn.Parameter(unpacked)
        layer.weight_scale = scale
        theirs = layer(torch.eye(k)).detach().numpy().T
    finally:
        torch.compiler.set_stance("default")
    assert np.array_equal(np.sign(found), np.sign(theirs))
    np.testing.assert_allclose(found, theirs, rtol=3 * 2**-24)


@pytest.mark.parametrize("seed", range(4))
def test_online_weights_are_those_that_the_layer_makes(tmp_path: Path, seed: int) -> None:
    weight = tiny_weights(tiny_config(), seed)["model.layers.0.mlp.up_proj.weight"]
    stored = round_bf16(weight)
    resolved, found = read(tmp_path, {"weight": DiskArray("BF16", stored)}, ONLINE)
    torch.compiler.set_stance("force_eager")
    try:
        theirs = reference.WeightQuant.apply(torch_bf16(stored)).float().numpy()
    finally:
        torch.compiler.set_stance("default")
    assert np.array_equal(dequantize(found), theirs) and len(np.unique(theirs)) == 3
    piece = {role: part.read(5, 29) for role, part in resolved.parts.items()}
    assert np.array_equal(piece["codes"], found.parts["codes"][5:29])


def test_online_weights_of_zeros(tmp_path: Path) -> None:
    _, found = read(tmp_path, {"weight": DiskArray("F32", np.zeros((4, 8), np.float32))}, ONLINE)
    assert not dequantize(found).any() and found.parts["scale"][0] == np.float32(1e-5)


@pytest.mark.parametrize("value", [np.nan, -np.inf])
def test_online_weights_that_are_no_numbers(tmp_path: Path, value: float) -> None:
    weight = np.ones((4, 8), np.float32)
    weight[2, 5] = value
    with pytest.raises(CheckpointError, match=f"has the weight {value} at row 2, column 5"):
        read(tmp_path, {"weight": DiskArray("F32", weight)}, ONLINE)


def test_online_leaves_the_embedding_and_the_head_alone() -> None:
    assert ONLINE.rule_of("lm_head") and not ONLINE.rule_of("model.layers.0.mlp.up_proj")
    listed = Settings(skipped=("up_proj", "model.layers.1"))
    assert [listed.rule_of(m) != "" for m in ("lm_head", "a.up_proj", "model.layers.1.x", "model.layers.11.x")] == [
        False, True, True, False,
    ]  # fmt: skip


def test_what_bitnet_cannot_say() -> None:
    good = ternary(tiny_weights(tiny_config())["model.layers.0.mlp.up_proj.weight"])
    with pytest.raises(ValueError, match="BitNet cannot express the scheme u4g32o"):
        encode(quantize(np.ones((32, 32), np.float32), U4G32O))
    with pytest.raises(ValueError, match="3 rows do not fill them"):
        encode(QuantTensor(good.scheme, (3, 64), {**good.parts, "codes": good.parts["codes"][:3]}))
    with pytest.raises(ValueError, match="no code -2"):
        encode(QuantTensor(good.scheme, good.shape, {**good.parts, "codes": good.parts["codes"] * 2}))
