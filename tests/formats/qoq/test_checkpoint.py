"""QoQ folders: what is written is read, and each byte lies where QServe's kernels look for it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.qoq.config import GROUP
from fewbit.formats.qoq.decode import tile, to_runs
from fewbit.formats.qoq.encode import encode
from fewbit.formats.qoq.resolve import by_groups
from fewbit.schemes.affine.scheme import U4G32O
from fewbit.schemes.reference import dequantize, quantize
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor
from tests.formats.altered import Alter, drop, keys, put, rename
from tests.formats.qoq.fixture import SIZES, random_tensor, tiny_qoq
from tests.formats.tiny import tiny_config, tiny_weights

DOWN = "model.layers.0.mlp.down_proj"


@pytest.mark.parametrize("grouped", [True, False])
def test_what_was_written_is_read(tmp_path: Path, grouped: bool) -> None:
    checkpoint = open_checkpoint(tiny_qoq(tmp_path / "m", grouped, seed=3))
    assert checkpoint.format == "qoq"
    for name, weight in tiny_weights(tiny_config(**SIZES), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = random_tensor(weight.shape, grouped, 3)
        assert (
            str(found.scheme) == ("u4g128ot" if grouped else "u4channelo") and found.scheme == expected.scheme
        )
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
        for start, stop in ((5, 29), (31, 33), (32, 64)):
            piece = checkpoint.read(name, start, stop)
            assert all(
                np.array_equal(piece.parts[role], part[start:stop]) for role, part in expected.parts.items()
            )


def test_weights_are_those_of_the_papers_formula(tmp_path: Path) -> None:
    """(q - zero) s2 rounds to nothing in 8 bits, and times s1 to nothing in f32."""
    checkpoint = open_checkpoint(tiny_qoq(tmp_path / "m", True, seed=1))
    found = checkpoint.read(f"{DOWN}.weight")
    parts = {role: part.astype(np.float64) for role, part in found.parts.items()}
    inner = parts["codes"].reshape(128, -1, GROUP) * parts["scale"][..., None] + parts["offset"][..., None]
    assert np.array_equal(
        dequantize(found), (inner.reshape(128, -1) * parts["super_scale"]).astype(np.float32)
    )


def test_each_code_lies_where_the_kernel_looks() -> None:
    """The published order, written out: byte ((((n3 4 + k2) 2 + k1) 2 + n2) 4 + k3) of a tile, in the nibble of n1."""
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 16, (64, 96)).astype(np.uint8)
    packed = tile(codes).view(np.uint8).reshape(2, 3, 512)
    for n, k in rng.integers(0, (64, 96), (500, 2)):
        row, column = n % 32, k % 32
        n1, n2, n3 = row // 16, row // 8 % 2, row % 8
        k1, k2, k3 = column // 16, column // 4 % 4, column % 4
        byte = packed[n // 32, k // 32, (((n3 * 4 + k2) * 2 + k1) * 2 + n2) * 4 + k3]
        assert (byte >> (4 * n1)) & 15 == codes[n, k]
    values = rng.integers(-128, 128, (64, 3)).astype(np.int8)
    stored = to_runs(values)
    for n in range(64):
        assert np.array_equal(stored[:, n // 32 * 32 + n % 8 * 4 + n % 32 // 8], values[n])


def test_every_code_with_extreme_scales(tmp_path: Path) -> None:
    """All codes in both nibbles, all values of the second level, first scales of both signs, subnormal and largest."""
    n, k = 128, 256
    codes = (np.arange(n * k) * 7 // 16 % 16).astype(np.uint8).reshape(n, k)
    second = np.arange(256, dtype=np.uint8).view(np.int8).reshape(n, 2)
    words = np.array([1, 0x7BFF, 0x0400, 0xFBFF, 0, 0x8001], np.uint16)
    scale = np.resize(words, (n, 1)).view(np.float16)
    parts = {
        "codes": codes,
        "scale": second,
        "offset": second[::-1].copy(),
        "super_scale": scale,
        "super_offset": -scale,
    }
    folder = tiny_qoq(tmp_path / "m")
    for leaf, array in encode(QuantTensor(by_groups(k), (n, k), parts)).items():
        put(f"{DOWN}.{leaf}", array.kind, array.array)(folder)
    found = open_checkpoint(folder).read(f"{DOWN}.weight")
    for role, part in parts.items():
        assert np.array_equal(found.parts[role], part), role
    assert len(np.unique(codes)) == 16


def test_a_declaration_beside_the_config(tmp_path: Path) -> None:
    folder = tiny_qoq(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    (folder / "quant_config.json").write_text(json.dumps(config.pop("quantization_config")))
    (folder / "config.json").write_text(json.dumps(config))
    assert open_checkpoint(folder).format == "qoq"


def test_what_qoq_cannot_say() -> None:
    with pytest.raises(ValueError, match="QoQ cannot express the scheme u4g32o"):
        encode(quantize(np.ones((32, 32), np.float32), U4G32O))
    tensor = random_tensor((32, 128), True)
    with pytest.raises(ValueError, match="one scale a row"):
        encode(
            QuantTensor(
                tensor.scheme, (32, 128), {**tensor.parts, "super_offset": tensor.parts["super_scale"]}
            )
        )
    with pytest.raises(ValueError, match="which 16 x 128 does not fill"):
        encode(random_tensor((16, 128), True))


CASES: dict[str, tuple[Alter, str]] = {
    "an unknown key": (keys(mystery=1), "key 'mystery' is unknown for the format qoq"),
    "8 bits": (keys(wbits=8), "key 'wbits' is 8, which is not supported"),
    "no bits": (keys(wbits=...), "key 'wbits' is absent"),
    "another group": (keys(group_size=64), "key 'group_size' is 64, which is not supported"),
    "groups that are none": (keys(group_size=-1), "module 'model.layers.0.self_attn.q_proj' has no tensor 's1_szeros'"),
    "no first scales": (drop(f"{DOWN}.s1_scales"), f"module '{DOWN}' has no tensor 's1_scales'"),
    "no second scales": (drop(f"{DOWN}.s2_scales"), f"module '{DOWN}' has no tensor 's2_scales'"),
    "no zeros": (rename(f"{DOWN}.s2_zeros", f"{DOWN}.s2_zero"), f"module '{DOWN}' has no tensor 's2_zeros'"),
    "no codes": (drop(f"{DOWN}.qweight"), f"tensor '{DOWN}.s1_scales' (F16 [128]) is taken by nothing"),
    "zeros of both levels": (put(f"{DOWN}.s1_szeros", "F16", np.ones(128, np.float16)), f"tensor '{DOWN}.s1_szeros' (F16 [128]) is taken by nothing"),
    "codes of another type": (put(f"{DOWN}.qweight", "U8", lambda w: w.view(np.uint8)), "expected type I8"),
    "codes that fill no tile": (put(f"{DOWN}.qweight", "I8", lambda w: w[:-1]), "expected tiles of 32 x 32 codes"),
    "columns that fill no group": (put(f"{DOWN}.qweight", "I8", lambda w: w[:, :-16]), "expected a multiple of 128 columns"),
    "second scales cut": (put(f"{DOWN}.s2_scales", "I8", lambda s: s[:, :-1]), f"tensor '{DOWN}.s2_scales' (I8 [2, 127]), expected shape [2, 128]"),
    "first scales of f32": (put(f"{DOWN}.s1_scales", "F32", np.ones(128, np.float32)), "expected type F16"),
    "a NaN scale": (put(f"{DOWN}.s1_scales", "F16", np.full(128, np.nan, np.float16)), "has a NaN super_scale"),
    "plain and packed": (put(f"{DOWN}.weight", "F16", np.ones((128, 256), np.float16)), f"module '{DOWN}' is quantized by"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_refused(tmp_path: Path, case: str) -> None:
    folder = tiny_qoq(tmp_path / "m")
    act, expected = CASES[case]
    act(folder)
    with pytest.raises(CheckpointError) as refusal:
        open_checkpoint(folder).read(f"{DOWN}.weight")
    assert expected in str(refusal.value) and str(folder) in str(refusal.value)
