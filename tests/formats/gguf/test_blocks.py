"""Every GGML type against the `gguf` package, bit for bit: random blocks, all codes, extreme, zero and subnormal scales."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
import pytest

from fewbit.formats.finite import check_finite
from fewbit.formats.gguf.decode import decode, encode
from fewbit.formats.gguf.types import TYPES, UNSUPPORTED, GgufType
from fewbit.schemes.arrays import Array
from fewbit.schemes.iq.grids import grid
from fewbit.schemes.reference import dequantize
from fewbit.spec.refusal import CheckpointError

QUANTIZED = [t for t in TYPES.values() if t.unpack is not None]
SCALES = {  # type: bytes of its f16 parts in a block
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q8_1": (0,), "Q2_K": (80, 82), "Q3_K": (108,),
    "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,), "TQ1_0": (52,), "TQ2_0": (64,), "Q1_0": (0,),
    "MXFP4": (), "NVFP4": (), "IQ1_M": (54,),
    **dict.fromkeys(("IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"), (0,)),
}  # fmt: skip
NAN_SCALES = {"MXFP4": (1, (0xFF,)), "NVFP4": (4, (0x7F, 0xFF))}  # scale bytes at the front, codes
# Several bytes mean the same: five digits of base 3, the sign of a scale, a sum that kernels use.
SYNONYMS = ("TQ1_0", "NVFP4", "Q8_1")
NO_NEGATIVE_ZERO = ("MXFP4", "NVFP4")  # the package reads the code of -0 as +0
EXTREMES = np.array(
    [0, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF], np.uint16
)  # f16 bit patterns


def finite_blocks(kind: GgufType, count: int, seed: int = 0) -> Array:
    """Random blocks whose f16 parts are finite."""
    blocks = np.random.default_rng(seed).integers(0, 256, (count, kind.block_bytes), dtype=np.uint8)
    for at in SCALES[kind.name]:
        blocks[:, at + 1] &= 0xBF  # clears the exponent's top bit
    return without_nan(kind, blocks)


def without_nan(kind: GgufType, blocks: Array) -> Array:
    """Scales that are refused as NaN become others."""
    count, codes = NAN_SCALES.get(kind.name, (0, ()))
    blocks[:, :count][np.isin(blocks[:, :count], codes)] -= 1
    return blocks


def expected_of(kind: GgufType, raw: Array) -> Array:
    if (
        kind.name == "Q1_0"
    ):  # the package cannot read it; a set bit is +d, a clear one -d, first element in the lowest bit
        blocks = raw.reshape(-1, 18)
        d = blocks[:, :2].copy().view(np.float16).astype(np.float32)
        bits = np.unpackbits(blocks[:, 2:], axis=1, bitorder="little")
        return np.where(bits != 0, d, -d).reshape(len(raw), -1)
    if kind.name == "Q8_1":  # the package cannot read it; it is Q8_0 with a sum between scale and codes
        q8_0 = np.delete(raw.reshape(-1, 36), (2, 3), axis=1).reshape(len(raw), -1)
        return gguf.dequantize(q8_0, gguf.GGMLQuantizationType.Q8_0)
    return gguf.dequantize(raw, gguf.GGMLQuantizationType(kind.id))


def same_bits(kind: GgufType, blocks: Array, n: int) -> None:
    raw = blocks.reshape(n, -1)
    k = blocks.shape[0] // n * kind.block
    tensor = decode(kind, raw.reshape(-1), n, k)
    with np.errstate(over="ignore"):
        expected = expected_of(kind, raw)
        found = dequantize(tensor)
    if kind.name in NO_NEGATIVE_ZERO:
        expected, found = expected + np.float32(0), found + np.float32(0)
    differ = np.argwhere(found.view(np.uint32) != expected.view(np.uint32))
    assert not differ.size, f"{kind.name}: first differing weight {differ[0]}"
    again = encode(tensor, kind)
    if kind.name in SYNONYMS:
        raw, again = np.ascontiguousarray(again), encode(decode(kind, again.reshape(-1), n, k), kind)
        assert (dequantize(decode(kind, raw.reshape(-1), n, k)) == found).all()
    assert again.tobytes() == raw.tobytes()


def test_the_table_agrees_with_the_package() -> None:
    for kind in TYPES.values():
        public = gguf.GGMLQuantizationType(kind.id)
        block, size = gguf.GGML_QUANT_SIZES[public]
        size -= 4 * (kind.name == "Q8_1")  # the package counts two f32; a block of ggml begins with two f16
        assert (public.name, block, size) == (kind.name, kind.block, kind.block_bytes)
    named = {t.value for t in gguf.GGMLQuantizationType}
    assert named <= TYPES.keys() | UNSUPPORTED.keys()
    assert all(gguf.GGMLQuantizationType(i).name == name for i, name in UNSUPPORTED.items() if i in named)


@pytest.mark.parametrize("kind", QUANTIZED, ids=lambda t: t.name)
def test_random_blocks(kind: GgufType) -> None:
    same_bits(kind, finite_blocks(kind, 3 * 1200), 3)  # more than one piece of 2^18 codes for superblocks


@pytest.mark.parametrize("kind", [t for t in QUANTIZED if t.name in NAN_SCALES], ids=lambda t: t.name)
def test_the_random_blocks_have_every_byte_of_a_scale(kind: GgufType) -> None:
    """So that types whose scales are bytes need no extreme ones of their own."""
    count, nan = NAN_SCALES[kind.name]
    assert set(range(256)) - set(nan) <= set(finite_blocks(kind, 3 * 1200)[:, :count].ravel().tolist())


@pytest.mark.parametrize(
    "kind",
    [t for t in QUANTIZED if SCALES[t.name] and t.name != "IQ1_M"],  # its f16 lies in four nibbles
    ids=lambda t: t.name,
)
def test_extreme_scales(kind: GgufType) -> None:
    first, *rest = SCALES[kind.name]
    pairs = [(a, b) for a in EXTREMES for b in (EXTREMES if rest else EXTREMES[:1])]
    blocks = finite_blocks(kind, len(pairs), seed=1)
    for block, (a, b) in zip(blocks, pairs, strict=True):
        block[first : first + 2] = np.frombuffer(a.tobytes(), np.uint8)
        for at in rest:
            block[at : at + 2] = np.frombuffer(b.tobytes(), np.uint8)
    same_bits(kind, blocks, 1)


@pytest.mark.parametrize("kind", QUANTIZED, ids=lambda t: t.name)
def test_every_byte_value_at_every_place(kind: GgufType) -> None:
    blocks = np.repeat(np.arange(256, dtype=np.uint8)[:, None], kind.block_bytes, axis=1)
    for at in SCALES[kind.name]:
        blocks[:, at : at + 2] = np.frombuffer(np.float16(0.37).tobytes(), np.uint8)
    same_bits(kind, without_nan(kind, blocks), 4)


@pytest.mark.parametrize("kind", QUANTIZED, ids=lambda t: t.name)
def test_random_blocks_hold_every_code_of_every_element(kind: GgufType) -> None:
    blocks = finite_blocks(kind, 4096, seed=2)
    same_bits(kind, blocks, 4)
    parts = decode(kind, blocks.reshape(-1), 1, 4096 * kind.block).parts
    if kind.scheme.family:
        rows = grid(kind.scheme.family.replace("iq1_s", "iq1").replace("iq1_m", "iq1"))
        assert np.array_equal(np.unique(parts["index"]), np.arange(len(rows)))
        return
    seen = parts["codes"].reshape(4096, kind.block)
    every = 3 if kind.name == "TQ1_0" else 1 << kind.scheme.codes.bits
    assert all(len(np.unique(seen[:, i])) == every for i in range(kind.block))


@pytest.mark.parametrize("kind", TYPES.values(), ids=lambda t: t.name)
def test_no_rows_and_one_row(kind: GgufType) -> None:
    k = 2 * kind.block
    assert decode(kind, np.empty(0, np.uint8), 0, k).shape == (0, k)
    assert dequantize(decode(kind, np.zeros(kind.row_bytes(k), np.uint8), 1, k)).shape == (1, k)


def test_the_sum_of_a_q8_1_block() -> None:
    codes = np.random.default_rng(0).integers(-128, 128, (3, 32)).astype(np.int8)
    kind, blocks = TYPES[9], np.zeros((3, 36), np.uint8)
    blocks[:, :2], blocks[:, 4:] = np.frombuffer(np.float16(0.25).tobytes(), np.uint8), codes.view(np.uint8)
    again = encode(decode(kind, blocks.reshape(-1), 3, 32), kind)
    assert np.array_equal(again[:, 2:4].copy().view(np.float16)[:, 0], codes.sum(1) * np.float16(0.25))
    assert np.array_equal(np.delete(again, (2, 3), 1), np.delete(blocks, (2, 3), 1))


def test_a_q4_1_block_of_scale_zero_is_its_offset() -> None:
    block = np.zeros((1, 20), np.uint8)
    block[0, 2:4] = np.frombuffer(np.float16(-1.5).tobytes(), np.uint8)
    block[0, 4:] = 0xA7
    assert (dequantize(decode(TYPES[3], block.reshape(-1), 1, 32)) == -1.5).all()


@pytest.mark.parametrize("name", NAN_SCALES)
def test_a_scale_that_is_nan_is_refused(name: str, tmp_path: Path) -> None:
    kind = next(t for t in TYPES.values() if t.name == name)
    for code in NAN_SCALES[name][1]:
        block = np.full((1, kind.block_bytes), code, np.uint8)
        tensor = decode(kind, block.reshape(-1), 1, kind.block)
        with pytest.raises(
            CheckpointError, match=r"'blk.0.ffn_up.weight' has the .* code .* no finite number"
        ):
            check_finite(tensor, tmp_path, "blk.0.ffn_up.weight", 0)


def test_a_codebook_of_another_type_is_not_written() -> None:
    tensor = decode(TYPES[20], np.zeros(18, np.uint8), 1, 32)
    with pytest.raises(ValueError, match="IQ4_NL has a codebook of its own"):
        encode(replace(tensor, parts={**tensor.parts, "codebook": np.arange(16, dtype=np.float32)}))


@pytest.mark.parametrize("name", ["IQ2_XXS", "IQ2_XS", "IQ3_XXS"])
def test_an_odd_number_of_signs_is_not_written(name: str) -> None:
    kind = next(t for t in TYPES.values() if t.name == name)
    tensor = decode(kind, np.zeros(kind.block_bytes, np.uint8), 1, 256)
    with pytest.raises(ValueError, match="even number of minus signs"):
        encode(replace(tensor, parts={**tensor.parts, "signs": np.ones((1, 32), np.uint8)}))


def test_what_a_type_cannot_say_is_not_written() -> None:
    for kind, role, value in ((34, "codes", -2), (35, "zero_point", 2), (40, "scale", 0x81)):
        tensor = decode(TYPES[kind], np.zeros(TYPES[kind].row_bytes(256), np.uint8), 1, 256)
        parts = {**tensor.parts, role: np.full_like(tensor.parts[role], value)}
        with pytest.raises(ValueError, match=TYPES[kind].name):
            encode(replace(tensor, parts=parts))
