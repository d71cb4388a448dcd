"""bitsandbytes folders: what is written is read, to the bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats import open_checkpoint
from fewbit.formats.bitsandbytes.config import BitsAndBytesConfig
from fewbit.formats.bitsandbytes.encode import BLOCK_SIZES, CODEBOOKS, INT8, encode, quant_type_of
from fewbit.formats.bitsandbytes.resolve import STATE, BitsAndBytesResolver
from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.resolve import Module, Resolved
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import DiskArray, safetensors_bytes
from fewbit.schemes.reference import dequantize
from fewbit.spec.dtype import F16, F32, U4
from fewbit.spec.granularity import group
from fewbit.spec.scheme import QuantTensor, Scheme
from tests.formats.bitsandbytes.fixture import NESTED_MAP, nest, tiny_bitsandbytes, tiny_tensor
from tests.formats.tiny import tiny_config, tiny_weights


@pytest.mark.parametrize("quant_type", ["nf4", "fp4", "int8"])
def test_what_was_written_is_read(tmp_path: Path, quant_type: str) -> None:
    checkpoint = open_checkpoint(tiny_bitsandbytes(tmp_path / "m", quant_type, seed=3))
    assert checkpoint.format == "bitsandbytes"
    for name, weight in tiny_weights(tiny_config(), 3).items():
        found = checkpoint.read(name)
        if "proj" not in name:
            assert found.scheme.is_plain
            continue
        expected = tiny_tensor(weight, quant_type)
        assert found.scheme == expected.scheme == checkpoint.tensors[name].scheme
        assert quant_type_of(found) == quant_type
        piece = checkpoint.read(name, 5, 29)
        for role, part in expected.parts.items():
            assert found.parts[role].dtype == part.dtype and np.array_equal(found.parts[role], part), role
            assert np.array_equal(piece.parts[role], part if role == "codebook" else part[5:29]), role
        assert all(np.array_equal(a.array, encode(found)[leaf].array) for leaf, a in encode(expected).items())


def read_back(
    folder: Path, leaves: dict[str, DiskArray], quant_type: str, double: bool = False
) -> QuantTensor:
    path = folder / "m.safetensors"
    path.write_bytes(safetensors_bytes(leaves))
    bits = 8 if quant_type == "int8" else 4
    resolver = BitsAndBytesResolver(BitsAndBytesConfig("a test", bits, quant_type, double, ()))
    claims = resolver.resolve(Module("m", read_header(CheckedFile(path))))
    (found,) = (claim for claim in claims if isinstance(claim, Resolved))
    n = found.shape[0]
    whole = {role: part.read(0, n) for role, part in found.parts.items()}
    for role, part in found.parts.items():  # cut where blocks are not
        rows = whole[role] if role == "codebook" else whole[role][1 : n - 1]
        assert np.array_equal(part.read(1, n - 1), rows), role
    return QuantTensor(found.scheme, found.shape, whole)


@pytest.mark.parametrize("quant_type", ["nf4", "fp4"])
def test_every_code_high_nibble_first(tmp_path: Path, quant_type: str) -> None:
    """All pairs of codes in a byte, under scales from the smallest to the largest."""
    pairs = np.arange(256, dtype=np.uint8).reshape(16, 16)
    codes = np.stack([pairs >> 4, pairs & 15], axis=-1).reshape(16, 32)
    scale = np.float32(2) ** np.linspace(-120, 120, 16).astype(np.float32)[:, None]
    scheme = Scheme(U4, group(32), scale=F32, codebook=F32)
    tensor = QuantTensor(
        scheme, (16, 32), {"codes": codes, "scale": scale, "codebook": CODEBOOKS[quant_type]}
    )
    leaves = encode(tensor)
    assert np.array_equal(leaves["weight"].array.reshape(-1), np.arange(256, dtype=np.uint8))
    found = read_back(tmp_path, leaves, quant_type)
    assert all(np.array_equal(found.parts[role], part) for role, part in tensor.parts.items())
    assert np.array_equal(dequantize(found), CODEBOOKS[quant_type][codes] * scale)


@pytest.mark.parametrize("blocksize", BLOCK_SIZES)
@pytest.mark.parametrize("k", [96, 192, 256, 4096])
def test_blocks_that_run_over_rows(tmp_path: Path, k: int, blocksize: int) -> None:
    """Every weight keeps the scale of its flat block, though groups divide the row."""
    n = 5
    flat = (
        np.random.default_rng(k).standard_normal((1, -(-n * k // blocksize) * blocksize)).astype(np.float32)
    )
    tensor = tiny_tensor(flat, "nf4", blocksize)
    leaves = encode(tensor)
    text = (
        leaves[f"{STATE}nf4"]
        .array.tobytes()
        .decode()
        .replace(f'"shape": [1, {flat.shape[1]}]', f'"shape": [{n}, {k}]')
    )
    leaves[f"{STATE}nf4"] = DiskArray("U8", np.frombuffer(text.encode(), np.uint8))
    leaves["weight"] = DiskArray("U8", leaves["weight"].array[: n * k // 2])
    found = read_back(tmp_path, leaves, "nf4")
    assert found.shape == (n, k) and found.scheme.granularity.k <= blocksize
    assert np.array_equal(dequantize(found), dequantize(tensor).reshape(-1)[: n * k].reshape(n, k))


def test_scales_that_are_quantized_too(tmp_path: Path) -> None:
    weight = np.random.default_rng(5).standard_normal((24, 1024)).astype(np.float32)
    tensor = tiny_tensor(weight, "nf4", 32)
    leaves = nest(encode(tensor), f"{STATE}nf4")
    found = read_back(tmp_path, leaves, "nf4", double=True)
    outer = leaves["weight.nested_absmax"].array
    offset = np.float32(float(tensor.parts["scale"].mean()))
    by_hand = NESTED_MAP[leaves["weight.absmax"].array] * np.repeat(outer, 256)[:768] + offset
    assert np.array_equal(found.parts["scale"], by_hand.reshape(24, 32))
    assert np.allclose(found.parts["scale"], tensor.parts["scale"], atol=0.01)
    assert np.array_equal(found.parts["codes"], tensor.parts["codes"])


def test_the_folder_with_scales_quantized_too(tmp_path: Path) -> None:
    checkpoint = open_checkpoint(tiny_bitsandbytes(tmp_path / "m", "fp4", double=True))
    assert checkpoint.read("model.layers.0.mlp.down_proj.weight").scheme.name == "u4g32c"


def test_every_byte_of_int8(tmp_path: Path) -> None:
    codes = np.tile(np.arange(-128, 128, dtype=np.int8), (4, 1))
    scb = np.array([1e-30, 127.0, 3.4e38, 0.3], np.float32)
    leaves = {"weight": DiskArray("I8", codes), "SCB": DiskArray("F32", scb)}
    found = read_back(tmp_path, leaves, "int8")
    assert np.array_equal(found.parts["codes"], codes)
    assert np.array_equal(found.parts["scale"], (scb * np.float32(1 / 127))[:, None])
    assert np.array_equal(encode(found)["SCB"].array * np.float32(1 / 127), found.parts["scale"].reshape(-1))


def test_what_bitsandbytes_cannot_say() -> None:
    nf4 = tiny_tensor(np.ones((2, 32), np.float32), "nf4")
    with pytest.raises(ValueError, match="cannot express the scheme u4g32c with a codebook of its own"):
        encode(replace(nf4, parts={**nf4.parts, "codebook": np.arange(16, dtype=np.float32)}))
    scale = np.linspace(1, 2, 4096, dtype=np.float32)[:, None]
    int8 = QuantTensor(INT8, (4096, 1), {"codes": np.ones((4096, 1), np.int8), "scale": scale})
    with pytest.raises(ValueError, match=r"cannot express the scale .* no float over 127"):
        encode(int8)
    half = Scheme(U4, group(32), scale=F16, codebook=F32)
    with pytest.raises(ValueError, match="cannot express the scheme u4g32c"):
        quant_type_of(replace(nf4, scheme=half))
