"""HQQ folders: what is written is read, to the bit, for every width and both axes; and so is what hqq itself wrote."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.resolve import Explained, Module, Resolved
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import safetensors_bytes
from fewbit.formats.hqq.config import HqqConfig, Settings
from fewbit.formats.hqq.encode import encode, settings_of
from fewbit.formats.hqq.resolve import HqqResolver
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.dtype import BF16, F16, F32, dtype
from fewbit.spec.granularity import group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.hqq.fixture import random_tensor, tiny_hqq
from tests.formats.tiny import tiny_config, tiny_weights

DATA = Path(__file__).parent / "data"
BITS = (1, 1.58, 2, 3, 4, 5, 6, 8)
FORMS = [
    *(Settings(bits, size, axis) for bits in BITS for size, axis in ((32, 1), (None, 1), (32, 0), (None, 0))),
    Settings(4, 32, 1, view_as_float=True),
    Settings(3, 32, 0, view_as_float=True),
    Settings(4, 32, 1, channel_wise=False),
    Settings(2, 256, 1),
    Settings(8, 1024, 0),  # longer than a row of K = 64 and 128, and than N
]


def read_tensor(folder: Path, stored: QuantTensor, settings: Settings, start: int = 0) -> QuantTensor:
    """A module written and resolved by itself, from row `start` on."""
    path = folder / "m.safetensors"
    path.write_bytes(safetensors_bytes(encode(stored, settings)))
    module = Module("m", read_header(CheckedFile(path)))
    claims = list(HqqResolver(HqqConfig("config", settings)).resolve(module))
    (found,) = (c for c in claims if isinstance(c, Resolved))
    explained = {c.tensor.name for c in claims if isinstance(c, Explained)}
    used = {t.name for part in found.parts.values() for t in part.tensors}
    assert used | explained == module.leaves.keys() and not used & explained
    parts = {role: part.read(start, found.shape[0]) for role, part in found.parts.items()}
    return QuantTensor(found.scheme, (found.shape[0] - start, found.shape[1]), parts)


@pytest.mark.parametrize("settings", FORMS, ids=str)
def test_what_was_written_is_read(tmp_path: Path, settings: Settings) -> None:
    checkpoint = open_checkpoint(tiny_hqq(tmp_path / "m", settings, seed=3))
    assert checkpoint.format == "hqq"
    for name, weight in tiny_weights(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = random_tensor(weight.shape, settings, 3)
        assert found.scheme == expected.scheme == checkpoint.tensors[name].scheme
        piece = checkpoint.read(name, 5, 29)
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
            cut = part if settings.channel_wise is False and role != "codes" else part[5:29]
            assert np.array_equal(piece.parts[role], cut), role


def test_what_hqq_itself_wrote() -> None:
    """1, 2, 3, 4 and 8 bits, both axes, groups that straddle rows: the weights that hqq dequantizes in f32, to the bit."""
    checkpoint = open_checkpoint(DATA)
    expected = json.loads((DATA / "sha256.json").read_text())
    found = {
        name: hashlib.sha256(dequantize(checkpoint.read(name)).tobytes()).hexdigest()
        for name, info in checkpoint.tensors.items()
        if not info.scheme.is_plain
    }
    assert found == expected and len(found) == 7
    schemes = {name.split(".")[-2]: str(info.scheme) for name, info in checkpoint.tensors.items()}
    assert schemes["q_proj"] == "u4g16z" and schemes["gate_proj"] == "u1g8z" and schemes["up_proj"] == "u4g1z"


@pytest.mark.parametrize("element", [F16, BF16, F32], ids=str)
@pytest.mark.parametrize("bits", BITS)
def test_every_code_with_extreme_scales(tmp_path: Path, bits: float, element) -> None:  # type: ignore[no-untyped-def]
    """Every code in every place of a word; scales from the smallest to the largest of their type, and of both signs."""
    settings = Settings(bits, 32, 1)
    tensor = random_tensor((80, 96), settings, element=element)
    count = 3 if bits == 1.58 else 1 << dtype(str(tensor.scheme.codes)).bits
    codes = (np.arange(80 * 96) * 7 // 5 % count).astype(np.uint8).reshape(80, 96)
    extremes = {"f16": [1, 0x7BFF, 0x0400, 0xFBFF, 0], "bf16": [1, 0x7F7F, 0x0080, 0xFF7F, 0], "f32": [1, 0x7F7FFFFF, 1 << 23, 0xFF7FFFFF, 0]}  # fmt: skip
    pattern = tensor.parts["scale"].dtype
    words = np.array(extremes[str(element)], "u4" if str(element) == "f32" else "u2")
    scale = np.resize(words.view(pattern), (80, 3))
    stored = QuantTensor(tensor.scheme, (80, 96), {**tensor.parts, "codes": codes, "scale": scale})
    found = read_tensor(tmp_path, stored, settings)
    for role, part in stored.parts.items():
        assert np.array_equal(found.parts[role].view("u1"), part.view("u1")), role
    assert np.array_equal(np.unique(found.parts["codes"]), np.arange(count))
    with np.errstate(over="ignore"):
        assert np.array_equal(dequantize(found), dequantize(stored))


def test_words_of_three_bits_at_their_border(tmp_path: Path) -> None:
    """Ten codes a word: group rows that fill the last word, miss one, and begin the next."""
    for rows in (9, 10, 11, 19, 20, 21):
        settings = Settings(3, 8, 1)
        stored = random_tensor((rows, 8), settings, rows)
        for start in range(rows):
            found = read_tensor(tmp_path, stored, settings, start)
            assert np.array_equal(found.parts["codes"], stored.parts["codes"][start:])


def test_what_hqq_cannot_say() -> None:
    with pytest.raises(ValueError, match="HQQ cannot express the scheme u4g32o"):
        settings_of(quantize(np.ones((32, 32), np.float32), U4G32O).scheme, 32)
    scheme = Scheme(dtype("u4"), group(16), scale=F16, zero_point=F16)
    assert settings_of(scheme, 64) == Settings(4, 16)
    tensor = random_tensor((64, 64), Settings(4, 32, 0))
    broken = replace(
        tensor,
        parts={**tensor.parts, "scale": tensor.parts["scale"] + np.arange(64, dtype=np.float16)[:, None]},
    )
    with pytest.raises(ValueError, match="differ within a group"):
        encode(broken, Settings(4, 32, 0))
