"""MLX folders: what is written is read, to the bit, for every mode, width, group size and type of scale."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.resolve import Module, Resolved
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import DiskArray, safetensors_bytes
from fewbit.formats.mlx.config import BITS, Settings
from fewbit.formats.mlx.encode import encode, scheme_of, settings_of
from fewbit.formats.mlx.resolve import packed_module
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec import dtype
from fewbit.spec.granularity import CHANNEL
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.mlx.fixture import tiny_mlx
from tests.formats.tiny import tiny_config, tiny_weights

FORMS = [
    *((Settings(bits, size), "bf16") for bits, size in itertools.product(BITS, (32, 64, 128))),
    *((Settings(4, 64), scale) for scale in ("f16", "f32")),
    *(
        (Settings(bits, size, mode), "bf16")
        for mode, size, bits in (("mxfp4", 32, 4), ("nvfp4", 16, 4), ("mxfp8", 32, 8))
    ),
]


@pytest.mark.parametrize(
    ("settings", "scale"), FORMS, ids=lambda v: str(v).replace(", ", "-").replace(" ", "_")
)
def test_what_was_written_is_read(tmp_path: Path, settings: Settings, scale: str) -> None:
    checkpoint = open_checkpoint(tiny_mlx(tmp_path / "m", settings, seed=3, scale=scale))
    assert checkpoint.format == "mlx"
    for name, weight in tiny_weights(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if weight.ndim != 2 or weight.shape[1] % settings.group_size:
            assert found.scheme.is_plain
            continue
        expected = quantize(weight, scheme_of(settings, scale))
        assert found.scheme == expected.scheme == checkpoint.tensors[name].scheme
        assert settings_of(found.scheme) == settings
        piece = checkpoint.read(name, 5, 29)
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
            assert np.array_equal(piece.parts[role], part[5:29]), role
    assert not checkpoint.tensors["model.layers.0.mlp.down_proj.weight"].scheme.is_plain


def read_back(
    folder: Path, stored: dict[str, DiskArray], settings: Settings, name: str = "m"
) -> list[Resolved]:
    path = folder / "m.safetensors"
    path.write_bytes(safetensors_bytes(stored))
    claims = packed_module(Module(name, read_header(CheckedFile(path))), settings, "a test")
    return [claim for claim in claims if isinstance(claim, Resolved)]


@pytest.mark.parametrize("bits", BITS)
def test_every_code_at_every_place_of_a_word(tmp_path: Path, bits: int) -> None:
    """Also those that straddle words, at 3, 5 and 6 bits."""
    many = 1 << bits
    codes = (np.arange(64)[None, :] + np.arange(many)[:, None]).astype(np.uint8) & np.uint8(many - 1)
    rng = np.random.default_rng(bits)
    scale, offset = (rng.standard_normal((many, 2)).astype(np.float16) for _ in range(2))
    settings = Settings(bits, 32)
    tensor = QuantTensor(
        scheme_of(settings, "f16"), codes.shape, {"codes": codes, "scale": scale, "offset": offset}
    )
    (found,) = read_back(tmp_path, encode(tensor, settings), settings)
    parts = {role: part.read(0, many) for role, part in found.parts.items()}
    assert all(np.array_equal(parts[role], part) for role, part in tensor.parts.items())
    by_hand = codes.astype(np.float32) * np.repeat(scale, 32, 1).astype(np.float32) + np.repeat(
        offset, 32, 1
    ).astype(np.float32)
    assert np.array_equal(dequantize(QuantTensor(found.scheme, found.shape, parts)), by_hand)


@pytest.mark.parametrize(("mode", "size", "bits"), [("mxfp4", 32, 4), ("nvfp4", 16, 4), ("mxfp8", 32, 8)])
def test_every_float_code_with_every_scale(tmp_path: Path, mode: str, size: int, bits: int) -> None:
    settings = Settings(bits, size, mode)
    codes = np.tile(np.arange(1 << bits, dtype=np.uint8), (256, max(1, 32 >> bits) * (2 if bits == 4 else 1)))
    scale = np.repeat(np.arange(256, dtype=np.uint8)[:, None], codes.shape[1] // size, 1)
    tensor = QuantTensor(scheme_of(settings), codes.shape, {"codes": codes, "scale": scale})
    (found,) = read_back(tmp_path, encode(tensor, settings), settings)
    assert all(np.array_equal(found.parts[role].read(0, 256), part) for role, part in tensor.parts.items())


def test_overrides_take_the_defaults_of_their_mode(tmp_path: Path) -> None:
    """Not the settings of the others; false leaves a module plain."""
    down, up, q = (
        "model.layers.0.mlp.down_proj",
        "model.layers.0.mlp.up_proj",
        "model.layers.0.self_attn.q_proj",
    )
    overrides = {down: Settings(6, 64), up: Settings(8, 32, "mxfp8"), q: None}
    folder = tiny_mlx(tmp_path / "m", Settings(4, 32), overrides=overrides)
    text = (folder / "config.json").read_text().replace('"group_size": 64,', "")
    (folder / "config.json").write_text(text)
    tensors = open_checkpoint(folder).tensors
    assert tensors[f"{down}.weight"].scheme.name == "u6g64o"
    assert tensors[f"{up}.weight"].scheme.name == "e4m3g32"
    assert tensors[f"{q}.weight"].scheme.is_plain
    assert tensors["model.layers.1.mlp.down_proj.weight"].scheme.name == "u4g32o"


def test_a_stack_is_its_experts(tmp_path: Path) -> None:
    settings, name = Settings(3, 32), "model.layers.0.mlp.switch_mlp.up_proj"
    rng = np.random.default_rng(1)
    experts = [
        quantize(rng.standard_normal((8, 64)).astype(np.float32), scheme_of(settings)) for _ in range(3)
    ]
    encoded = [encode(expert, settings) for expert in experts]
    stacked = {
        leaf: DiskArray(a.kind, np.stack([e[leaf].array for e in encoded])) for leaf, a in encoded[0].items()
    }
    for index, found in enumerate(read_back(tmp_path, stacked, settings, name)):
        assert found.name == f"model.layers.0.mlp.experts.{index}.up_proj.weight" and found.shape == (8, 64)
        assert all(
            np.array_equal(found.parts[role].read(0, 8), part) for role, part in experts[index].parts.items()
        )


def test_what_mlx_cannot_say() -> None:
    with pytest.raises(ValueError, match="MLX cannot express the scheme i8channel"):
        settings_of(Scheme(dtype.I8, CHANNEL, dtype.F16))
