"""QuIP# folders: what is written is read, to the bit, and every transform of a layer is named."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.quip.decode import from_tiles
from fewbit.formats.quip.encode import encode, encode_in_order, to_tiles
from fewbit.kernels.backend import open_backend
from fewbit.loader import load_model
from fewbit.platforms.x86.detect import detect
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.lattice.e8p import e8p, short
from fewbit.schemes.lattice.scheme import E8P12, E8P12RVQ3B, E8P12RVQ4B
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.refusal import RefusedError
from fewbit.spec.scheme import QuantTensor
from tests.formats.altered import keys
from tests.formats.quip.fixture import SCHEMES, beside, rows, tiny_quip, tiny_tensor
from tests.formats.tiny import tiny_config, tiny_weights

DOWN = "model.layers.0.mlp.down_proj"


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("name", SCHEMES)
def test_what_was_written_is_read(tmp_path: Path, name: str, in_order: bool) -> None:
    scheme = SCHEMES[name]
    checkpoint = open_checkpoint(
        tiny_quip(tmp_path / "m", scheme, in_order=in_order, seed=3, num_hidden_layers=1)
    )
    assert checkpoint.format == "quip"
    for module, shape in rows(tiny_weights(tiny_config(num_hidden_layers=1), 3), False).items():
        found, expected = checkpoint.read(f"{module}.weight"), tiny_tensor(shape, scheme, 3)
        assert found.scheme == scheme == checkpoint.tensors[f"{module}.weight"].scheme
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        size = int(name[0]) * shape[0] * shape[1] // 8
        assert checkpoint.tensors[f"{module}.weight"].bytes_on_disk == size
        whole = dequantize(expected)
        for start, stop in ((0, 7), (13, 31), (16, 32), (24, 24)):
            piece = checkpoint.read(f"{module}.weight", start, stop)
            assert np.array_equal(dequantize(piece), whole[start:stop])
        demands = dict(checkpoint.tensors[f"{module}.weight"].layer.demands())
        assert demands == {
            "pre_scale": f"{module}.SU",
            "pre_hadamard": f"{module}.had_left",
            "post_hadamard": f"{module}.had_right",
            "post_scale": f"{module}.SV",
        }


def test_projections_quantized_as_one(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_quip(tmp_path / "m", fused=True))
    assert checkpoint.tensors["model.layers.1.self_attn.qkv_proj.weight"].shape == (128, 64)
    scale = checkpoint.read_auxiliary("model.layers.1.self_attn.qkv_proj.SV")  # type: ignore[attr-defined]
    stored = beside(128, 64)["SV"].array.astype(np.float32)
    factors = np.repeat(np.array([0.5, 1.25, 2], np.float32), [64, 32, 32])
    assert np.array_equal(scale, np.float32(0.03) * stored * factors)


def test_every_code_in_tiles() -> None:
    """Where each bit lies, written out: 16 rows are 8 pairs of rows, 64 columns 4 pairs of runs."""
    codes = np.random.default_rng(0).permutation(1 << 16).astype(np.uint16).reshape(64, 1024)
    words = to_tiles(codes)
    assert words.dtype == np.int64 and words.shape == (64, 256) and np.array_equal(from_tiles(words), codes)
    held = words.view(np.uint64).reshape(-1)
    for row, run in [(0, 0), (1, 0), (0, 1), (15, 7), (16, 8), (37, 1001), (63, 1023)]:
        tile = (row // 16 * (1024 // 8) + run // 8) * 32
        word = int(held[tile + row % 16 // 2 * 4 + run % 8 // 2])
        i = row % 2 + 2 * (run % 2)
        signs = sum((word >> 32 + 4 * bit + i & 1) << bit for bit in range(8))
        assert (word >> 8 * i & 255) << 8 | signs == codes[row, run]


def test_every_code_in_order(tmp_path: Path) -> None:
    """QuIP-for-all's own reading of a code: its bit 7 is of entry 0, 6 of 2, 5 of 1, then 3, 4, 6, 5; the last is bit 0, and is
    flipped where an odd number is set."""
    theirs = np.arange(1 << 16)
    odd = np.bitwise_count(theirs.astype(np.uint8)) % 2
    magnitudes = np.abs(e8p()[::256] - np.float32(0.25))
    expected = magnitudes[theirs >> 8].copy()
    expected[expected.sum(axis=1) % 2 == 1, 7] *= -1
    for bit, entry in zip(range(7, -1, -1), (0, 2, 1, 3, 4, 6, 5, 7)):
        flipped = theirs >> bit & 1 if bit else (theirs & 1) ^ odd
        expected[:, entry] *= 1 - 2 * flipped.astype(np.float32)
    expected += np.where(odd, -0.25, 0.25)[:, None].astype(np.float32)
    ours = {tuple(p): code for code, p in enumerate(e8p().tolist())}
    codes = np.array([ours[tuple(p)] for p in expected.tolist()], np.uint16).reshape(64, 1024)
    tensor = QuantTensor(E8P12, (64, 8192), {"codes": codes})
    stored = encode_in_order(tensor)["Qidxs"].array
    assert stored.dtype == np.int16 and np.array_equal(stored.view(np.uint16).reshape(-1), theirs)


@pytest.mark.parametrize(("scheme", "book"), [(E8P12RVQ3B, short), (E8P12RVQ4B, e8p)])
def test_residuals_are_added(scheme, book) -> None:  # type: ignore[no-untyped-def]
    tensor = tiny_tensor((16, 64), scheme)
    found = dequantize(tensor).reshape(16, 8, 8)
    for row, run in [(0, 0), (7, 3), (15, 7)]:
        code, residual = (tensor.parts[role][row, run] for role in ("codes", "residual_codes"))
        expected = e8p()[code] + book()[residual] * np.float32(1 / 3.25)
        assert np.array_equal(found[row, run], expected.astype(np.float32)) and np.any(book()[residual])


def test_the_codebook_has_a_scale_of_its_own(tmp_path: Path) -> None:
    for scheme, divisor in ((E8P12RVQ3B, 2.04), (E8P12RVQ4B, 3.45)):
        folder = tiny_quip(tmp_path / scheme.name, scheme)
        keys(inside="quip_params", resid_scale_override=-1)(folder)
        other = tiny_quip(tmp_path / f"{scheme.name} in order", scheme, in_order=True)
        keys(opt_resid_scale=None)(other)
        for made in (folder, other):
            scale = open_checkpoint(made).read(f"{DOWN}.weight").parts["residual_scale"]
            assert scale.dtype == np.float32 and scale.tolist() == [np.float32(1 / divisor)]


def test_no_method_leaves_a_transform_out(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match=r"proj\.weight.*: layer quantization pre_scale is not supported"):
        load_model(open_checkpoint(tiny_quip(tmp_path / "m")), open_backend("reference", detect()))


def test_what_quip_cannot_say() -> None:
    with pytest.raises(ValueError, match="QuIP# cannot express the scheme u4g32o"):
        encode(quantize(np.ones((32, 64), np.float32), U4G32O))
    with pytest.raises(
        ValueError, match=r"packs 16 rows and 64 columns together, got a weight of shape \(8, 64\)"
    ):
        encode(tiny_tensor((8, 64)))
