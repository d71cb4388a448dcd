"""AWQ folders: what is written is read, to the bit, with every zero point."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.awq.config import Settings
from fewbit.formats.awq.encode import encode, settings_of
from fewbit.formats.awq.gemv import shuffle, unshuffle
from fewbit.formats.awq.resolve import packed_module
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.marlin import pack_marlin
from fewbit.formats.folder.resolve import Module, Resolved
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import safetensors_bytes
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.reference import quantize
from fewbit.spec.dtype import F16, U4
from fewbit.spec.granularity import group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.awq.fixture import tiny_awq, tiny_tensor
from tests.formats.tiny import tiny_config, tiny_weights

WIDE = {"num_key_value_heads": 4}  # Marlin needs 64 outputs
FORMS = [
    *(Settings(*form) for form in itertools.product((-1, 32, 64), (True, False), ("gemm", "gemv"))),
    *(Settings(size, True, "gemv_fast") for size in (-1, 32, 64)),
    *(Settings(size, False, "marlin") for size in (-1, 32, 64)),
]


@pytest.mark.parametrize("settings", FORMS, ids=str)
def test_what_was_written_is_read(tmp_path: Path, settings: Settings) -> None:
    checkpoint = open_checkpoint(tiny_awq(tmp_path / "m", settings, seed=3, **WIDE))
    assert checkpoint.format == "awq"
    for name, weight in tiny_weights(tiny_config(**WIDE), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = tiny_tensor(weight, settings)
        assert found.scheme == expected.scheme and settings_of(found, settings.version) == settings
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        assert np.array_equal(checkpoint.read(name, 5, 29).parts["codes"], expected.parts["codes"][5:29])


@pytest.mark.parametrize("version", ["gemm", "gemv"])
def test_every_code_with_every_zero_point(tmp_path: Path, version: str) -> None:
    """In every position of a word: codes go round the rows, zero points too."""
    n, k = 128, 32
    row = np.arange(n)[:, None]
    codes = ((np.arange(k)[None] + row) % 16).astype(np.uint8)
    zeros = ((np.arange(2)[None] * 8 + row // 8) % 16).astype(np.uint8)
    assert {(c, z) for c, z in zip(codes.ravel(), zeros.repeat(16, axis=1).ravel(), strict=True)} == set(
        itertools.product(range(16), range(16))
    )
    scale = np.random.default_rng(0).random((n, 2)).astype(np.float16)
    scheme = Scheme(U4, group(16), F16, zero_point=U4)
    tensor = QuantTensor(scheme, (n, k), {"codes": codes, "scale": scale, "zero_point": zeros})
    settings = Settings(16, True, version)
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes(encode(tensor, settings)))
    module = Module("m", read_header(CheckedFile(path)))
    (claim,) = packed_module(module, settings, "a test")
    assert isinstance(claim, Resolved)
    for role, part in claim.parts.items():
        assert np.array_equal(part.read(0, n), tensor.parts[role]), role


def test_gemv_fast_shuffles_as_autoawq_does() -> None:
    """By the definition: in 32 columns pairs lie 8 apart, then even before odd pairs' halves; 4 rows share 64 words."""
    codes = np.random.default_rng(0).integers(0, 16, (8, 128)).astype(np.uint8)
    words = shuffle(codes)
    assert words.shape == (2, 128) and np.array_equal(unshuffle(words), codes)
    lowest = [0, 8, 16, 24]  # the first word holds the first four codes of row 0
    assert words[0, 0] == sum(int(codes[0, c]) << 4 * i for i, c in enumerate(lowest))
    assert words[0, 1] == sum(int(codes[0, c + 1]) << 4 * i for i, c in enumerate(lowest))
    assert words[1, 16] == sum(int(codes[5, c]) << 4 * i for i, c in enumerate(lowest))


def test_marlin_lays_tiles_as_its_authors_do() -> None:
    """By the definition: the first word is of thread 0, which holds rows 0, 1, 8, 9 of columns 0 and 8, even before odd."""
    codes = np.random.default_rng(0).integers(0, 16, (128, 32)).astype(np.uint8)
    words = pack_marlin(codes).view(np.uint32)
    assert words.shape == (2, 256)
    elements = [(n, k) for n in (0, 8) for k in (0, 1, 8, 9)]
    expected = [elements[i] for i in (0, 2, 4, 6, 1, 3, 5, 7)]
    assert words[0, 0] == sum(int(codes[at]) << 4 * i for i, at in enumerate(expected))
    assert words[1, 128] == sum(int(codes[64 + n, 16 + k]) << 4 * i for i, (n, k) in enumerate(expected))


def test_what_awq_cannot_say() -> None:
    with pytest.raises(ValueError, match=r"AWQ \(gemm\) cannot express the scheme u4g32o"):
        settings_of(quantize(np.ones((32, 32), np.float32), U4G32O))
    odd = quantize(np.ones((12, 32), np.float32), Scheme(U4, group(32), F16, zero_point=U4))
    with pytest.raises(ValueError, match="over 12 x 32"):
        settings_of(odd)


def test_a_part_of_a_name_decides_nothing(tmp_path: Path) -> None:
    """`mlp.gate` is a router; AutoAWQ's own match would find it in `mlp.gate_proj` too."""
    keys = {"modules_to_not_convert": ["lm_head", "mlp.gate"]}
    checkpoint = open_checkpoint(tiny_awq(tmp_path / "m", Settings(32), keys=keys))
    assert not checkpoint.tensors["model.layers.0.mlp.gate_proj.weight"].scheme.is_plain


def test_the_oldest_side_file(tmp_path: Path) -> None:
    """Beside config.json, and alone."""
    folder = tiny_awq(tmp_path / "m", Settings(32))
    old = {"zero_point": True, "q_group_size": 32, "w_bit": 4, "version": "GEMM"}
    (folder / "quant_config.json").write_text(json.dumps(old))
    assert open_checkpoint(folder).format == "awq"
    config = json.loads((folder / "config.json").read_text())
    del config["quantization_config"]
    (folder / "config.json").write_text(json.dumps(config))
    assert open_checkpoint(folder).format == "awq"
