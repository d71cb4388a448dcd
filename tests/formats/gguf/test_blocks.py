"""Every GGML type against the `gguf` package, bit for bit: random blocks, all codes, extreme, zero and subnormal scales."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from fewbit.formats.gguf.decode import decode, encode
from fewbit.formats.gguf.types import TYPES, UNSUPPORTED, GgufType
from fewbit.schemes.arrays import Array
from fewbit.schemes.reference import dequantize

QUANTIZED = [t for t in TYPES.values() if t.unpack is not None]
SCALES = {  # type: bytes of its f16 parts in a block
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,),
    "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,),
}  # fmt: skip
EXTREMES = np.array(
    [0, 0x8000, 1, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF], np.uint16
)  # f16 bit patterns


def finite_blocks(kind: GgufType, count: int, seed: int = 0) -> Array:
    """Random blocks whose f16 parts are finite."""
    blocks = np.random.default_rng(seed).integers(0, 256, (count, kind.block_bytes), dtype=np.uint8)
    for at in SCALES[kind.name]:
        blocks[:, at + 1] &= 0xBF  # clears the exponent's top bit
    return blocks


def same_bits(kind: GgufType, blocks: Array, n: int) -> None:
    raw = blocks.reshape(n, -1)
    k = blocks.shape[0] // n * kind.block
    tensor = decode(kind, raw.reshape(-1), n, k)
    with np.errstate(over="ignore"):
        expected = gguf.dequantize(raw, gguf.GGMLQuantizationType(kind.id))
        found = dequantize(tensor)
    differ = np.argwhere(found.view(np.uint32) != expected.view(np.uint32))
    assert not differ.size, f"{kind.name}: first differing weight {differ[0]}"
    assert encode(tensor).tobytes() == raw.tobytes()


def test_the_table_agrees_with_the_package() -> None:
    for kind in TYPES.values():
        public = gguf.GGMLQuantizationType(kind.id)
        assert (public.name, gguf.GGML_QUANT_SIZES[public]) == (kind.name, (kind.block, kind.block_bytes))
    named = {t.value for t in gguf.GGMLQuantizationType}
    assert named <= TYPES.keys() | UNSUPPORTED.keys()
    assert all(gguf.GGMLQuantizationType(i).name == name for i, name in UNSUPPORTED.items() if i in named)


@pytest.mark.parametrize("kind", QUANTIZED, ids=lambda t: t.name)
def test_random_blocks(kind: GgufType) -> None:
    same_bits(kind, finite_blocks(kind, 3 * 1200), 3)  # more than one piece of 2^18 codes for superblocks


@pytest.mark.parametrize("kind", QUANTIZED, ids=lambda t: t.name)
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
    same_bits(kind, blocks, 4)


@pytest.mark.parametrize("kind", QUANTIZED, ids=lambda t: t.name)
def test_random_blocks_hold_every_code_of_every_element(kind: GgufType) -> None:
    blocks = finite_blocks(kind, 4096, seed=2)
    seen = decode(kind, blocks.reshape(-1), 1, 4096 * kind.block).parts["codes"].reshape(4096, kind.block)
    same_bits(kind, blocks, 4)
    every = kind.scheme.codes.highest - kind.scheme.codes.lowest + 1
    assert all(len(np.unique(seen[:, i])) == every for i in range(kind.block))


@pytest.mark.parametrize("kind", TYPES.values(), ids=lambda t: t.name)
def test_no_rows_and_one_row(kind: GgufType) -> None:
    k = 2 * kind.block
    assert decode(kind, np.empty(0, np.uint8), 0, k).shape == (0, k)
    assert decode(kind, np.zeros(kind.row_bytes(k), np.uint8), 1, k).parts["codes"].shape == (1, k)


def test_a_q4_1_block_of_scale_zero_is_its_offset() -> None:
    block = np.zeros((1, 20), np.uint8)
    block[0, 2:4] = np.frombuffer(np.float16(-1.5).tobytes(), np.uint8)
    block[0, 4:] = 0xA7
    assert (dequantize(decode(TYPES[3], block.reshape(-1), 1, 32)) == -1.5).all()
