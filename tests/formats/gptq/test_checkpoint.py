"""GPTQ folders: what is written is read, to the bit, for every width, form and version."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.resolve import Module, Resolved
from fewbit.formats.folder.safetensors import DiskTensor, read_header
from fewbit.formats.folder.writer import safetensors_bytes
from fewbit.formats.gptq.config import Settings
from fewbit.formats.gptq.encode import encode, settings_of
from fewbit.formats.gptq.resolve import packed_module
from fewbit.kernels.backend import open_backend
from fewbit.loader import load_model
from fewbit.platforms.x86.detect import detect
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.reference import quantize
from fewbit.spec import dtype
from fewbit.spec.granularity import group
from fewbit.spec.layer_quant import LayerQuant
from fewbit.spec.refusal import CheckpointError, RefusedError
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.gptq.fixture import tiny_gptq, tiny_tensor
from tests.formats.tiny import tiny_config, tiny_weights

FORMS = [
    Settings(bits, size, sym, order, version)
    for bits, (size, order), sym, version in itertools.product(
        (2, 3, 4, 8), ((-1, False), (32, False), (32, True)), (True, False), (1, 2)
    )
] + [Settings(bits, 32, sym, False, 2, planar=True) for bits in range(2, 9) for sym in (True, False)]


def ids(s: Settings) -> str:
    return f"w{s.bits}-g{s.group_size}-{'sym' if s.sym else 'asym'}-{'order-' if s.desc_act else ''}v{s.version}{'p' if s.planar else ''}"


@pytest.mark.parametrize("settings", FORMS, ids=ids)
def test_what_was_written_is_read(tmp_path: Path, settings: Settings) -> None:
    checkpoint = open_checkpoint(tiny_gptq(tmp_path / "m", settings, seed=3))
    assert checkpoint.format == "gptq"
    for name, weight in tiny_weights(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = tiny_tensor(weight, settings, 3)
        assert found.scheme == expected.scheme == checkpoint.tensors[name].scheme
        assert settings_of(found, settings.version, settings.planar) == settings
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        piece = checkpoint.read(name, 5, 29)
        assert np.array_equal(piece.parts["codes"], expected.parts["codes"][5:29])
        assert np.array_equal(piece.parts["scale"], expected.parts["scale"][5:29])


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_every_code_with_every_zero_point(tmp_path: Path, bits: int, version: int) -> None:
    """Zero points 0 included, whose borrow runs over the word in version 1, in every position of a word."""
    many = 1 << bits
    n = max(many, 32)
    rng = np.random.default_rng(bits)
    codes = np.tile(np.arange(many, dtype=np.uint8), (n, max(1, 32 // many)))
    zeros = rng.permutation(np.resize(np.arange(many), 2 * n)).astype(np.uint8).reshape(n, 2)
    k = codes.shape[1] * 2
    scheme = Scheme(dtype.dtype(f"u{bits}"), group(k // 2), dtype.F16, zero_point=dtype.dtype(f"u{bits}"))
    scale = rng.random((n, 2)).astype(np.float16)
    tensor = QuantTensor(scheme, (n, k), {"codes": np.tile(codes, 2), "scale": scale, "zero_point": zeros})
    settings = Settings(bits, k // 2, False, False, version)
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes(encode(tensor, settings)))
    leaves: dict[str, DiskTensor] = read_header(CheckedFile(path))
    claims = [c for c in packed_module(Module("m", leaves), settings, "a test") if isinstance(c, Resolved)]
    for role, part in claims[0].parts.items():
        assert np.array_equal(part.read(0, n), tensor.parts[role]), role


def test_what_gptq_cannot_say() -> None:
    with pytest.raises(ValueError, match="GPTQ cannot express the scheme u4g32o"):
        settings_of(quantize(np.ones((32, 32), np.float32), U4G32O))


def test_rules_choose_by_name(tmp_path: Path) -> None:
    rules = {"-:model\\.layers\\.0\\.mlp": {}, "+:.*down_proj$": {"bits": 8}}
    folder = tiny_gptq(tmp_path / "m", Settings(4, 32, True), keys={"dynamic": rules})
    with pytest.raises(
        CheckpointError,
        match=r"module 'model.layers.0.mlp.\w+' is left unquantized by dynamic rule '-:model.*qweight",
    ):
        open_checkpoint(folder)
    folder = tiny_gptq(
        tmp_path / "n", Settings(4, 32, True), keys={"dynamic": {"+:.*down_proj$": {"bits": 8}}}
    )
    with pytest.raises(CheckpointError, match=r"'model.layers.0.mlp.down_proj.scales'.*expected shape"):
        open_checkpoint(folder)


def test_a_layer_that_does_more_is_refused_by_name(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_gptq(tmp_path / "m", Settings(4, 32, True)))
    name = "model.layers.0.mlp.down_proj.weight"
    checkpoint.tensors[name] = replace(
        checkpoint.tensors[name], layer=LayerQuant(pre_scale="x.pre_quant_scale")
    )
    with pytest.raises(
        RefusedError,
        match=r"down_proj.weight: layer quantization pre_scale is not supported; .*'pre_quant_scale'",
    ):
        load_model(checkpoint, open_backend("reference", detect()))
