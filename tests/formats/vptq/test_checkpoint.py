"""VPTQ folders: what is written is read, to the bit, for every part that a weight may have."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.vptq.decode import pack_fields, unpack_fields
from fewbit.formats.vptq.encode import encode, layer_of
from fewbit.kernels.backend import open_backend
from fewbit.loader import load_model
from fewbit.platforms.x86.detect import detect
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.reference import dequantize, quantize
from fewbit.schemes.vector.scheme import Columns
from tests.formats.altered import keys, put
from tests.formats.tiny import tiny_config, tiny_weights
from tests.formats.vptq.fixture import ALL, FORMS, TOOL_SHAPE, tiny_tensor, tiny_vptq

DOWN = "model.layers.0.mlp.down_proj"


@pytest.mark.parametrize("name", FORMS)
def test_what_was_written_is_read(tmp_path: Path, name: str) -> None:
    form = FORMS[name]
    checkpoint = open_checkpoint(tiny_vptq(tmp_path / "m", form, seed=3, num_hidden_layers=1))
    assert checkpoint.format == "vptq"
    for module, weight in tiny_weights(tiny_config(num_hidden_layers=1), 3).items():
        found = checkpoint.read(module)
        if "proj" not in module:
            assert found.scheme.is_plain
            continue
        expected = tiny_tensor(weight.shape, form, 3)
        assert found.scheme == expected.scheme == checkpoint.tensors[module].scheme
        assert found.scheme.stacked(weight.shape[1]) is None
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        whole = dequantize(expected)
        assert whole.shape == weight.shape
        for start, stop in ((0, 7), (24, 31), (24, 24)):
            assert np.array_equal(dequantize(checkpoint.read(module, start, stop)), whole[start:stop])


def test_the_tool_has_the_same_weights(root: Path) -> None:
    """To the bit: written by write_tool_weights.py."""
    with np.load(root / "tests/data/vptq_weights.npz") as theirs:
        assert theirs.files == list(FORMS)
        for name, form in FORMS.items():
            assert np.array_equal(dequantize(tiny_tensor(TOOL_SHAPE, form, 5)), theirs[name]), name


@pytest.mark.parametrize("bits", [1, 7, 12, 16, 20, 28, 31, 32])
def test_fields_straddle_words(bits: int) -> None:
    rng = np.random.default_rng(bits)
    fields = rng.integers(0, 1 << bits, (3, 45), dtype=np.uint64)
    fields[0, :2] = (0, (1 << bits) - 1)
    words = pack_fields(fields, bits)
    assert words.shape == (3, -(-45 * bits // 32)) and np.array_equal(unpack_fields(words, bits, 45), fields)
    whole = [sum(int(f) << i * bits for i, f in enumerate(row)) for row in fields]
    assert [int.from_bytes(row.tobytes(), "little") for row in words] == whole


def test_every_code(tmp_path: Path) -> None:
    """Code c stands for the vector c, in every place of a word, whatever is in the residual beside it."""
    tensor = tiny_tensor((64, 128), Columns(8, 256, 1, 4))
    codes = np.arange(8 * 128).reshape(8, 128) % 256
    residual = np.arange(8 * 128).reshape(8, 128) // 256
    folder = tiny_vptq(tmp_path / "m", Columns(8, 256, 1, 4))
    words = pack_fields((codes | residual << 8).astype(np.uint64), 10)[None]
    put(f"{DOWN}.indices", "I32", words.view(np.int32))(folder)
    for leaf, role in (("centroids", "codebook"), ("res_centroids", "residual_codebook")):
        put(f"{DOWN}.{leaf}.weight", "F16", tensor.parts[role].reshape(1, -1))(folder)
    found = dequantize(open_checkpoint(folder).read(f"{DOWN}.weight"))
    main, beside = (tensor.parts[role][0].astype(np.float32) for role in ("codebook", "residual_codebook"))
    for row in range(64):
        expected = main[codes[row // 8], row % 8] + beside[residual[row // 8], row % 8]
        assert np.array_equal(found[row], expected), row


def test_layers_by_the_last_part_of_their_name(tmp_path: Path) -> None:
    folder = tiny_vptq(tmp_path / "m")
    expected = open_checkpoint(folder).read(f"{DOWN}.weight")
    shapes = {
        "q": (64, 64),
        "k": (32, 64),
        "v": (32, 64),
        "o": (64, 64),
        "gate": (128, 64),
        "up": (128, 64),
        "down": (64, 128),
    }
    shared = {f"{name}_proj": layer_of(tiny_tensor(shape, ALL)) for name, shape in shapes.items()}
    for layer in shared.values():  # as in files of models whose layers differ in size
        del layer["in_features"], layer["out_features"]
    keys(config_for_layers={}, shared_layer_config=shared)(folder)
    found = open_checkpoint(folder).read(f"{DOWN}.weight")
    assert found.scheme == expected.scheme and np.array_equal(dequantize(found), dequantize(expected))


def test_a_model_runs_on_the_reference_backend(tmp_path: Path) -> None:
    assert load_model(open_checkpoint(tiny_vptq(tmp_path / "m")), open_backend("reference", detect()))


def test_what_vptq_cannot_say() -> None:
    with pytest.raises(ValueError, match="VPTQ cannot express the scheme u4g32o"):
        encode(quantize(np.ones((32, 32), np.float32), U4G32O))


def test_a_scheme_is_named_by_its_sizes() -> None:
    assert str(tiny_tensor((8, 32), FORMS["main"]).scheme) == "vptq_v8c256"
    assert str(tiny_tensor((8, 32), ALL).scheme) == "vptq_v8c16r4o4c6pn"
