"""compressed-tensors folders: what is written is read, to the bit, for every packing, width and form."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.compressed_tensors.encode import (
    MXFP4,
    MXFP6,
    MXFP8,
    NVFP4,
    args_of,
    config_of,
    encode,
    packing_of,
)
from fewbit.formats.folder.writer import DiskArray, as_disk, write_json, write_weights
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.arrays import round_bf16
from fewbit.schemes.floats.table import values
from fewbit.schemes.plain.scheme import BF16 as PLAIN
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.dtype import BF16, E4M3, F16, F32, I8, dtype
from fewbit.spec.granularity import CHANNEL, TENSOR, block, group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.compressed_tensors.fixture import tiny_compressed, tiny_tensor
from tests.formats.plain.fixture import write_tiny_files
from tests.formats.tiny import tiny_config, tiny_weights

PACKED = [
    Scheme(
        dtype(f"{sign}{bits}"), grain, BF16, dtype(f"u{bits}") if sign == "u" else None, group_index=ordered
    )
    for bits, (grain, ordered), sign in itertools.product(
        range(2, 9), ((CHANNEL, False), (group(32), False), (group(32), True)), "iu"
    )
]
IN_BYTES = [
    Scheme(dtype(f"i{b}"), grain, F32)
    for b in (2, 4, 8)
    for grain in (TENSOR, CHANNEL, group(32), block(16, 32))
]
FLOATS = [
    Scheme(E4M3, grain, scale)
    for grain in (TENSOR, CHANNEL, group(32), block(24, 48))
    for scale in (F16, F32)
]
FORMS = [(s, False) for s in (*PACKED, *FLOATS, NVFP4, MXFP4, MXFP6, MXFP8)] + [(s, True) for s in IN_BYTES]
DOWN = "model.layers.0.mlp.down_proj"


@pytest.mark.parametrize(("scheme", "in_bytes"), FORMS, ids=lambda v: str(v) if isinstance(v, Scheme) else "")
def test_what_was_written_is_read(tmp_path: Path, scheme: Scheme, in_bytes: bool) -> None:
    checkpoint = open_checkpoint(tiny_compressed(tmp_path / "m", scheme, in_bytes=in_bytes, seed=3))
    assert checkpoint.format == "compressed-tensors"
    for name, weight in tiny_weights(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = tiny_tensor(weight, scheme, 3)
        assert found.scheme == expected.scheme == checkpoint.tensors[name].scheme
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        start = 5 // scheme.block_n * scheme.block_n
        piece = checkpoint.read(name, start, 29)
        assert np.array_equal(piece.parts["codes"], expected.parts["codes"][start:29])
        if scheme.zero_point:
            assert np.array_equal(piece.parts["zero_point"], expected.parts["zero_point"][start:29])


def folder_of(
    folder: Path, leaves: dict[str, DiskArray], declared: dict[str, object], **changes: int
) -> Path:
    """A tiny model with only one down projection changed."""
    folder.mkdir()
    config = tiny_config(**changes)
    stored = {
        name: as_disk(quantize(weight, PLAIN))
        for name, weight in tiny_weights(config).items()
        if name != f"{DOWN}.weight"
    }
    write_weights(folder, stored | {f"{DOWN}.{leaf}": array for leaf, array in leaves.items()})
    write_tiny_files(folder, config)
    write_json(folder / "config.json", {**config, "quantization_config": declared})
    return folder


def shape_of_down() -> tuple[int, int]:
    n, k = tiny_weights(tiny_config())[f"{DOWN}.weight"].shape
    return n, k


@pytest.mark.parametrize("bits", range(2, 9))
def test_every_code_meets_every_zero_point(tmp_path: Path, bits: int) -> None:
    (n, k), wide = shape_of_down(), 1 << bits
    scheme = Scheme(dtype(f"u{bits}"), group(32), F16, dtype(f"u{bits}"))
    parts = {
        "codes": (np.arange(n * k).reshape(n, k) % wide).astype(np.uint8),
        "scale": np.full((n, k // 32), 0.5, np.float16),
        "zero_point": (np.arange(n * k // 32).reshape(n, k // 32) * 7 % wide).astype(np.uint8),
    }
    folder = folder_of(tmp_path / "m", encode(QuantTensor(scheme, (n, k), parts)), config_of(scheme))
    found = open_checkpoint(folder).read(f"{DOWN}.weight")
    for role, part in parts.items():
        assert np.array_equal(found.parts[role], part), role
    by_hand = (parts["codes"].astype(np.float32) - np.repeat(parts["zero_point"], 32, axis=1)) / 2
    assert np.array_equal(dequantize(found), by_hand)


@pytest.mark.parametrize("scheme", [NVFP4, MXFP4, MXFP6, MXFP8, Scheme(E4M3, CHANNEL, F32)], ids=str)
def test_every_float_code_keeps_its_value(tmp_path: Path, scheme: Scheme) -> None:
    n, k = shape_of_down()
    finite = np.flatnonzero(np.isfinite(values(scheme.codes.name))).astype(np.uint8)
    ones = np.ones((n, k), np.float32)
    one = values(scheme.codes.name)[tiny_tensor(ones, scheme).parts["codes"][0, 0]]
    codes = finite[np.arange(n * k).reshape(n, k) % len(finite)]
    parts = {**tiny_tensor(one * ones, scheme).parts, "codes": codes}  # a scale of one
    if scheme.global_scale:
        parts |= {"scale": np.full((n, k // 16), 0x38, np.uint8), "global_scale": np.ones(1, np.float32)}
    folder = folder_of(tmp_path / "m", encode(QuantTensor(scheme, (n, k), parts)), config_of(scheme))
    found = open_checkpoint(folder).read(f"{DOWN}.weight")
    assert np.array_equal(found.parts["codes"], codes)
    assert np.array_equal(dequantize(found), values(scheme.codes.name)[codes])


def test_an_empty_expert_sparsity_is_none(tmp_path: Path) -> None:
    """The writer names the key whether it has something to say or not."""
    checkpoint = open_checkpoint(tiny_compressed(tmp_path / "m", MXFP4, keys={"moe_sparsity_config": None}))
    assert checkpoint.tensors[f"{DOWN}.weight"].scheme == MXFP4


def test_integers_in_bytes_may_have_zero_points(tmp_path: Path) -> None:
    scheme = Scheme(I8, CHANNEL, F32, zero_point=I8)
    (n, k), rng = shape_of_down(), np.random.default_rng(0)
    parts = {
        "codes": rng.integers(-128, 128, (n, k), np.int8),
        "scale": rng.random((n, 1), np.float32),
        "zero_point": rng.integers(-128, 128, (n, 1), np.int8),
    }
    folder = folder_of(
        tmp_path / "m", encode(QuantTensor(scheme, (n, k), parts), True), config_of(scheme, True)
    )
    found = open_checkpoint(folder).read(f"{DOWN}.weight")
    assert found.scheme == scheme
    assert all(np.array_equal(found.parts[role], part) for role, part in parts.items())


@pytest.mark.parametrize("stored", ["sparse-24-bitmask", "sparse-bitmask"])
def test_sparse_weights_come_back_at_their_columns(tmp_path: Path, stored: str) -> None:
    (n, k), rng = shape_of_down(), np.random.default_rng(0)
    quads = rng.random((n, k // 4, 4)).argsort(axis=2) < 2
    mask = quads.reshape(n, k) if stored == "sparse-24-bitmask" else rng.random((n, k)) < 0.3
    weight = round_bf16(np.where(mask, rng.standard_normal((n, k)), 0).astype(np.float32))
    leaves = {
        "compressed": DiskArray(
            "BF16", weight[mask].reshape((n, k // 2) if stored == "sparse-24-bitmask" else (-1,))
        ),
        "bitmask": DiskArray("U8", np.packbits(mask, axis=1, bitorder="little")),
        "shape": DiskArray("I64", np.array([[n], [k]])),
    }
    if stored == "sparse-bitmask":
        leaves["row_offsets"] = DiskArray("I64", np.append(0, np.cumsum(mask.sum(axis=1))[:-1]))
    declared = {
        "quant_method": "compressed-tensors",
        "sparsity_config": {"format": stored, "targets": ["Linear"]},
    }
    checkpoint = open_checkpoint(folder_of(tmp_path / "m", leaves, declared))
    found = checkpoint.read(f"{DOWN}.weight")
    assert found.scheme == Scheme(BF16, mask=True)
    assert np.array_equal(found.parts["codes"], weight) and np.array_equal(found.parts["mask"], mask)
    assert np.array_equal(checkpoint.read(f"{DOWN}.weight", 3, 11).parts["codes"], weight[3:11])


def test_the_older_key_is_read(tmp_path: Path) -> None:
    scheme = PACKED[0]
    folder = tiny_compressed(tmp_path / "m", scheme)
    config = json.loads((folder / "config.json").read_text())
    config["compression_config"] = config.pop("quantization_config")
    (folder / "config.json").write_text(json.dumps(config))
    assert open_checkpoint(folder).read(f"{DOWN}.weight").scheme == scheme


def test_a_name_beats_a_pattern_beats_a_class(tmp_path: Path) -> None:
    scheme = Scheme(I8, CHANNEL, F32)
    folder = tiny_compressed(tmp_path / "m", scheme, in_bytes=True)
    config = json.loads((folder / "config.json").read_text())
    quantization = config["quantization_config"]
    right = quantization["config_groups"]["group_0"]
    wrong = right | {"weights": right["weights"] | {"num_bits": 2}}
    quantization["config_groups"] = {
        "a": wrong | {"targets": ["Linear"]},
        "b": right | {"targets": ["re:.*proj$"]},
        "c": wrong | {"targets": [DOWN]},
    }
    (folder / "config.json").write_text(json.dumps(config))
    tensors = open_checkpoint(folder).tensors
    assert tensors[f"{DOWN}.weight"].scheme.codes.bits == 2
    assert {i.scheme.codes.bits for n, i in tensors.items() if "proj" in n and n != f"{DOWN}.weight"} == {8}


def test_input_scales_are_named(tmp_path: Path) -> None:
    scheme = Scheme(E4M3, TENSOR, F32)
    leaves = encode(tiny_tensor(tiny_weights(tiny_config())[f"{DOWN}.weight"], scheme))
    leaves["input_scale"] = DiskArray("F32", np.array([0.25], np.float32))
    inputs = {"num_bits": 8, "type": "float", "strategy": "tensor", "dynamic": False}
    linear = {"targets": ["Linear"], "weights": args_of(scheme), "input_activations": inputs}
    folder = folder_of(tmp_path / "m", leaves, config_of(scheme, config_groups={"group_0": linear}))
    checkpoint: Any = open_checkpoint(folder)
    found = checkpoint.tensors[f"{DOWN}.weight"].layer.input_quant
    assert found.is_static and found.codes is E4M3 and str(found.granularity) == "tensor"
    assert checkpoint.read_auxiliary(found.scale) == [0.25]


def test_what_it_cannot_say_is_refused() -> None:
    for scheme in (
        U4G32O,
        Scheme(dtype("u4"), group(32), F16, zero_point=F16),
        Scheme(E4M3, CHANNEL, F32, mask=True),
    ):
        with pytest.raises(ValueError, match="cannot express the scheme"):
            packing_of(scheme)
