"""The types of ModelSlim one by one: every code, every scale beside it, and what may be left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from fewbit.formats.files import CheckedFile
from fewbit.formats.folder.resolve import Auxiliary, Claim, Explained, Module, Resolved
from fewbit.formats.folder.safetensors import read_header
from fewbit.formats.folder.writer import DiskArray, safetensors_bytes
from fewbit.formats.modelslim.config import Description
from fewbit.formats.modelslim.resolve import ModelSlimResolver
from fewbit.schemes.arrays import Array
from fewbit.schemes.floats.table import values
from fewbit.schemes.reference import dequantize
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import QuantTensor

N, K = 16, 64
CODES = np.resize(np.arange(-8, 8, dtype=np.int8), (N, K))
SCALE = np.linspace(0.01, 0.2, N, dtype=np.float32).reshape(N, 1)
ZERO = np.zeros((N, 1), np.float32)
SECOND = np.linspace(0.5, 4, N * 2, dtype=np.float32).reshape(N, 2)


def claims(tmp_path: Path, kind: str, leaves: Mapping[str, Array]) -> Iterator[Claim]:
    """Of one module `m`, whose bytes of 8-bit floats have the kind F8_E4M3."""
    names = {np.int8: "I8", np.uint8: "U8", np.float32: "F32", np.int32: "I32", np.int64: "I64"}
    floats = kind == "WFP8AFP8_DYNAMIC"
    stored = {
        f"m.{leaf}": DiskArray("F8_E4M3" if floats and leaf == "weight" else names[a.dtype.type], a)
        for leaf, a in leaves.items()
    }
    path = tmp_path / "m.safetensors"
    path.write_bytes(safetensors_bytes(stored))
    disk = read_header(CheckedFile(path))
    kinds = {name: "C8" if "kv_cache" in name else kind for name in disk}
    module = Module("m", {name.removeprefix("m."): tensor for name, tensor in disk.items()})
    return iter(list(ModelSlimResolver(Description("a test", kinds)).resolve(module)))


def weight(found: Iterator[Claim], name: str) -> Array:
    (claim,) = (claim for claim in found if isinstance(claim, Resolved))
    n = claim.shape[0]
    whole = {role: part.read(0, n) for role, part in claim.parts.items()}
    assert str(claim.scheme) == name
    for role, part in claim.parts.items():
        assert np.array_equal(part.read(3, 9), whole[role][3:9]), role
    return dequantize(QuantTensor(claim.scheme, claim.shape, whole))


def in_pairs(codes: Array) -> Array:
    """Row 2 i in the low nibbles of row i, row 2 i + 1 in the high ones."""
    return ((codes[0::2] & 15) | (codes[1::2] << 4)).astype(np.int8)


@pytest.mark.parametrize("packed", [True, False])
def test_w4a8(tmp_path: Path, packed: bool) -> None:
    codes = np.stack([np.roll(CODES[0], row) for row in range(N)])  # every pair of codes in a byte
    held = {"weight": in_pairs(codes) if packed else codes, "weight_scale": SCALE, "weight_offset": ZERO}
    found = weight(claims(tmp_path, "W4A8_DYNAMIC", held | {"scale_bias": ZERO + 3}), "i4channel")
    assert np.array_equal(found, codes * SCALE)


@pytest.mark.parametrize("offset", [np.zeros((N, 2), np.float32), np.zeros((N, 2), np.int64)])
def test_w4a8_in_groups(tmp_path: Path, offset: Array) -> None:
    held = {
        "weight": in_pairs(CODES), "weight_scale": SCALE, "weight_offset": ZERO, "weight_scale_second": SECOND,
        "weight_offset_second": offset, "scale_bias": np.ones((N, 16), np.float32),
    }  # fmt: skip
    made = list(claims(tmp_path, "W4A8_DYNAMIC", held))
    expected = CODES * np.repeat(SECOND * SCALE, K // 2, 1)
    assert np.array_equal(weight(iter(made), "i4g32t"), expected)
    explained = {claim.tensor.name for claim in made if isinstance(claim, Explained)}
    assert explained == {"m.weight_offset", "m.weight_offset_second", "m.scale_bias"}


def test_w8a8_without_the_weight_scale(tmp_path: Path) -> None:
    """deq_scale is input_scale * weight_scale, in f32 or as the low half of i64, whose high half is no number."""
    codes = np.resize(np.arange(-128, 128, dtype=np.int8), (N, K))
    product = (SCALE[:, 0] * np.float32(0.25)).astype(np.float32)
    wide = product.view(np.uint32).astype(np.int64) | np.int64(0x7FC0) << np.int64(48)
    for stored in (product, wide):
        held = {
            "weight": codes, "deq_scale": stored, "input_scale": np.full(1, 0.25, np.float32),
            "input_offset": np.full(1, -3, np.float32), "quant_bias": np.arange(N, dtype=np.int32),
        }  # fmt: skip
        made = list(claims(tmp_path, "W8A8", held))
        assert np.array_equal(weight(iter(made), "i8channel"), codes * SCALE)
        assert [claim.name for claim in made if isinstance(claim, Auxiliary)] == [
            "m.input_scale", "m.input_offset", "m.quant_bias",
        ]  # fmt: skip
    with pytest.raises(
        CheckpointError, match=r"'m.input_scale' .* is 0.0, expected a finite number other than 0"
    ):
        weight(claims(tmp_path, "W8A8", held | {"input_scale": np.zeros(1, np.float32)}), "i8channel")


def test_w8a8_mix_and_sparse(tmp_path: Path) -> None:
    held = {
        "weight": CODES, "weight_scale": SCALE, "weight_offset": ZERO, "deq_scale": (SCALE[:, 0] * np.float32(0.5)),
        "input_scale": np.full(1, 0.5, np.float32), "input_offset": np.zeros(1, np.float32),
        "quant_bias": np.zeros(N, np.int32),
    }  # fmt: skip
    for kind in ("W8A8_MIX", "W8A8S"):
        assert np.array_equal(weight(claims(tmp_path, kind, held), "i8channel"), CODES * SCALE)


def test_8_bits_in_groups(tmp_path: Path) -> None:
    offset = np.resize(np.arange(-3, 4, dtype=np.float32), (N, 2))
    held = {"weight": CODES, "weight_scale": SECOND, "weight_offset": offset}
    expected = (CODES - np.repeat(offset, K // 2, 1)) * np.repeat(SECOND, K // 2, 1)
    for kind in ("W8A16", "W8A8_DYNAMIC"):
        assert np.array_equal(weight(claims(tmp_path, kind, held), "i8g32z"), expected)


def test_fp8(tmp_path: Path) -> None:
    codes = np.resize(np.arange(256, dtype=np.uint8), (N, K))
    codes[(codes & 0x7F) == 0x7F] = 0
    held = {"weight": codes, "weight_scale": SCALE, "weight_offset": ZERO}
    found = weight(claims(tmp_path, "WFP8AFP8_DYNAMIC", held), "e4m3channel")
    assert np.array_equal(found, values("e4m3")[codes] * SCALE)


@pytest.mark.parametrize("shape", [(N, 2), (N, 2, 1)])
def test_mxfp4_with_a_second_scale(tmp_path: Path, shape: tuple[int, ...]) -> None:
    codes = np.resize(np.arange(16, dtype=np.uint8), (N, 1024))
    powers = np.resize(np.arange(100, 140, dtype=np.uint8), (N, 32))
    held = {
        "weight": (codes[:, 0::2] | codes[:, 1::2] << 4), "weight_scale": powers, "weight_dual_scale": SECOND.reshape(shape),
    }  # fmt: skip
    expected = values("e2m1")[codes] * np.repeat(values("e8m0")[powers], 32, 1) * np.repeat(SECOND, 512, 1)
    assert np.array_equal(weight(claims(tmp_path, "W4A4_MXFP4_DUALSCALE", held), "e2m1g32t"), expected)


def test_what_is_plain_and_what_is_of_the_cache(tmp_path: Path) -> None:
    (plain,) = claims(tmp_path, "W16A16S", {"weight": SCALE})
    assert str(plain).startswith("Unquantized")
    held = {"weight": CODES, "weight_scale": SCALE, "weight_offset": ZERO}
    cache = {"kv_cache_scale": SCALE[:, 0], "kv_cache_offset": ZERO[:, 0]}
    names = [c.name for c in claims(tmp_path, "W8A8_DYNAMIC", held | cache) if isinstance(c, Auxiliary)]
    assert names == ["m.kv_cache_scale", "m.kv_cache_offset"]


WRONG: dict[str, tuple[str, dict[str, Array], str]] = {
    "an offset of 4 bits": ("W4A8_DYNAMIC", {"weight_offset": ZERO + 1}, "0 everywhere, since these weights are symmetric"),
    "a second offset": ("W4A8_DYNAMIC", {"weight_scale_second": SECOND, "weight_offset_second": SECOND}, "0 everywhere"),
    "rows that are neither": ("W4A8_DYNAMIC", {"weight": CODES[:5]}, "the weight having N rows or N / 2"),
    "groups that do not divide": ("W4A8_DYNAMIC", {"weight_scale_second": np.ones((N, 3), np.float32)}, "with G dividing 64"),
    "values of 5 bits": ("W4A8_DYNAMIC", {"weight": CODES * np.int8(2)}, "expected 4-bit values from -8 to 7"),
    "an offset of floats": ("WFP8AFP8_DYNAMIC", {"weight_offset": ZERO + 1}, "0 everywhere, since floats have no offset"),
    "no 512 columns": ("W4A4_MXFP4_DUALSCALE", {"weight": np.zeros((N, 32), np.uint8)}, "groups of 512 along K"),
    "a scale of half a row": ("W8A8_DYNAMIC", {"weight_scale": np.ones((N, 5), np.float32)}, "with G dividing 64"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_refused(tmp_path: Path, case: str) -> None:
    kind, changes, expected = WRONG[case]
    held = {"weight": CODES, "weight_scale": SCALE, "weight_offset": ZERO} | changes
    with pytest.raises(CheckpointError) as refusal:
        weight(claims(tmp_path, kind, held), "")
    assert expected in str(refusal.value)
