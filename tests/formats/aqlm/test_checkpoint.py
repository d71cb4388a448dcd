"""AQLM folders: what is written is read, to the bit, for every number and size of codebooks and tiles."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.aqlm.config import Settings
from fewbit.formats.aqlm.encode import encode, settings_of
from fewbit.kernels.backend import open_backend
from fewbit.loader import load_model
from fewbit.platforms.x86.detect import detect
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.reference import dequantize, quantize
from tests.formats.altered import put
from tests.formats.aqlm.fixture import SMALL, TOOL_SHAPE, TOOL_SIZES, tiny_aqlm, tiny_tensor
from tests.formats.tiny import tiny_config, tiny_weights

FORMS = [Settings(*form) for form in itertools.product((1, 2, 8), (1, 7, 8, 12), (8, 16), (1, 4))]
NAME = "model.layers.1.mlp.down_proj"


def ids(s: Settings) -> str:
    return f"{s.books}x{s.bits}g{s.rows}x{s.run}"


@pytest.mark.parametrize("settings", [*FORMS, Settings(1, 16, 8)], ids=ids)
def test_what_was_written_is_read(tmp_path: Path, settings: Settings) -> None:
    checkpoint = open_checkpoint(tiny_aqlm(tmp_path / "m", settings, seed=3, num_hidden_layers=1))
    assert checkpoint.format == "aqlm"
    for name, weight in tiny_weights(tiny_config(num_hidden_layers=1), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = tiny_tensor(weight.shape, settings, 3)
        assert found.scheme == expected.scheme == checkpoint.tensors[name].scheme
        assert settings_of(found) == settings and found.scheme.stacked(found.shape[1]) is None
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        whole = dequantize(expected)
        for start, stop in ((8, 29), (4, 5), (12, 12)):
            assert np.array_equal(dequantize(checkpoint.read(name, start, stop)), whole[start:stop])


@pytest.mark.parametrize(("bits", "kind"), [(8, np.int8), (16, np.int16), (5, np.int8), (12, np.int16)])
def test_every_code(tmp_path: Path, bits: int, kind: type) -> None:
    """Code c stands for the row c of its codebook, whichever sign the container gives it."""
    many, run = 1 << bits, 8
    n = max(many * run // 128, 1)
    settings = Settings(1, bits, run)
    tensor = tiny_tensor((64, 128), settings)
    expected = tensor.parts["codebook"].reshape(many, run).astype(np.float32)
    codes = np.arange(max(many, 16)).reshape(-1, 16, 1) % many
    folder = tiny_aqlm(tmp_path / "m", settings)
    put(f"{NAME}.codes", "I8" if bits <= 8 else "I16", codes.astype(kind))(folder)
    put(f"{NAME}.codebooks", "F16", tensor.parts["codebook"])(folder)
    put(f"{NAME}.scales", "F16", np.full((n, 1, 1, 1), 2, np.float16))(folder)
    found = dequantize(open_checkpoint(folder).read(f"{NAME}.weight"))
    assert np.array_equal(found.reshape(-1, run)[:many], 2 * expected)


def test_codebooks_add_up_and_tiles_lie_in_place() -> None:
    """By one element at a time, as the format defines it."""
    tensor = tiny_tensor((8, 32), Settings(3, 4, 8, 4), 1)
    codes, books, scale = (tensor.parts[role].astype(np.float32) for role in ("codes", "codebook", "scale"))
    found = dequantize(tensor)
    for row, column in itertools.product(range(8), range(32)):
        total = np.float32(0)
        for book in range(3):
            total += books[book, int(codes[row // 4, column // 8, book]), row % 4, column % 8]
        assert found[row, column] == total * scale[row // 4, 0]


def test_the_tool_has_the_same_weights(root: Path) -> None:
    """To the bit: written by write_tool_weights.py."""
    with np.load(root / "tests/data/aqlm_weights.npz") as theirs:
        for settings in TOOL_SIZES:
            tensor = tiny_tensor(TOOL_SHAPE, settings, 5)
            assert np.array_equal(dequantize(tensor), theirs[tensor.scheme.name]), settings


def test_a_model_runs_on_the_reference_backend(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_aqlm(tmp_path / "m"))
    assert load_model(checkpoint, open_backend("reference", detect()))


def test_what_aqlm_cannot_say() -> None:
    with pytest.raises(ValueError, match="AQLM cannot express the scheme u4g32o"):
        encode(quantize(np.ones((32, 32), np.float32), U4G32O))


def test_a_scheme_is_named_by_its_sizes() -> None:
    names = {
        s: tiny_tensor((8, 32), s).scheme.name for s in (SMALL, Settings(1, 16, 8), Settings(4, 8, 16, 4))
    }
    assert list(names.values()) == ["aqlm_2x8g8", "aqlm_1x16g8", "aqlm_4x8g4x16"]
    assert tiny_tensor((64, 64), Settings(1, 16, 8)).scheme.bits_per_weight(4096, 4096) == 2 + 0.5 + 16 / 4096
