"""torchao folders: what is written is read, to the bit, for every type of tensor, width and granularity."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.resolve import Module, Resolved
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import safetensors_bytes
from fewbit.formats.torchao.config import TorchAoConfig
from fewbit.formats.torchao.encode import encode, tensor_type_of
from fewbit.formats.torchao.resolve import TorchAoResolver
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec import dtype
from fewbit.spec.granularity import CHANNEL, TENSOR, Granularity, group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.edits import add_metadata
from tests.formats.tiny import tiny_config, tiny_weights
from tests.formats.torchao.fixture import tiny_torchao

FORMS = [
    *(Scheme(dtype.I8, granularity, scale=dtype.F32) for granularity in (CHANNEL, TENSOR)),
    *(
        Scheme(dtype.E4M3, granularity, scale=dtype.F32)
        for granularity in (CHANNEL, TENSOR, Granularity("block", 16, 32))
    ),
    *(
        Scheme(dtype.dtype(f"i{bits}"), granularity, scale=dtype.BF16)
        for bits, granularity in itertools.product((2, 3, 4, 5, 6, 7, 8), (CHANNEL, group(32)))
    ),
    *(
        Scheme(dtype.dtype(f"i{bits}"), group(32), scale=dtype.F16, zero_point=dtype.I8)
        for bits in (2, 4, 7, 8)
    ),
]


@pytest.mark.parametrize("scheme", FORMS, ids=lambda s: f"{s}-{s.scale}")
def test_what_was_written_is_read(tmp_path: Path, scheme: Scheme) -> None:
    checkpoint = open_checkpoint(tiny_torchao(tmp_path / "m", scheme, seed=3))
    assert checkpoint.format == "torchao"
    for name, weight in tiny_weights(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = quantize(weight, scheme)
        assert found.scheme == scheme == checkpoint.tensors[name].scheme
        piece = checkpoint.read(name, 16, 31)
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        assert np.array_equal(piece.parts["codes"], expected.parts["codes"][16:31])


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("symmetric", [True, False])
def test_every_code_with_every_zero_point(tmp_path: Path, bits: int, symmetric: bool) -> None:
    element = dtype.dtype(f"i{bits}")
    all_codes = np.arange(element.lowest, element.highest + 1).astype(np.int8)
    n, k = 1 << bits, max(32, 1 << bits)
    codes = np.tile(all_codes, (n, k >> bits))
    scale = np.random.default_rng(bits).random((n, 1)).astype(np.float32)
    scheme = Scheme(element, group(k), scale=dtype.F32, zero_point=None if symmetric else dtype.I8)
    parts = {"codes": codes, "scale": scale} | ({} if symmetric else {"zero_point": all_codes[:, None]})
    leaves, text = encode(QuantTensor(scheme, (n, k), parts))
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes(leaves))
    config = TorchAoConfig("a test", tensor_type_of(scheme), symmetric, (), {"m.weight": text})
    claims = TorchAoResolver(config).resolve(Module("m", read_header(CheckedFile(path))))
    (found,) = (claim for claim in claims if isinstance(claim, Resolved))
    whole = {role: part.read(0, n) for role, part in found.parts.items()}
    assert all(np.array_equal(whole[role], part) for role, part in parts.items())
    zeros = 0 if symmetric else all_codes[:, None].astype(np.float32)
    weight = dequantize(QuantTensor(found.scheme, found.shape, whole))
    assert np.array_equal(weight, (codes.astype(np.float32) - zeros) * scale)


def test_activations_that_are_quantized_are_said(tmp_path: Path) -> None:
    folder = tiny_torchao(tmp_path / "m", FORMS[0])
    name = "model.layers.0.mlp.down_proj.weight"
    kwargs = {
        "_type": "QuantizeTensorToInt8Kwargs",
        "_data": {"granularity": {"_type": "PerRow", "_data": {"dim": -1}}},
    }
    add_metadata(name, "_data", act_quant_kwargs=kwargs)(folder)
    assert str(open_checkpoint(folder).tensors[name].layer.input_quant) == "i8token dynamic"


def test_what_torchao_cannot_say() -> None:
    for scheme in (
        Scheme(dtype.U4, group(32), dtype.F16, zero_point=dtype.U4),
        Scheme(dtype.E2M1, group(32), dtype.E8M0),
    ):
        with pytest.raises(ValueError, match=f"torchao cannot express the scheme {scheme}"):
            tensor_type_of(scheme)
    blocks = Scheme(dtype.E4M3, Granularity("block", 128, 128), scale=dtype.F32)
    with pytest.raises(ValueError, match="a last block that is not whole"):
        encode(quantize(np.ones((160, 128), np.float32), blocks))
