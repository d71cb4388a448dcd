"""embedding rows: a packed row decodes to exactly the values that the scheme, and llama.cpp's own Python code, give it."""

from __future__ import annotations

import gguf
import numpy as np
import pytest

from tests.kernels.cpu.packed_weights import PANEL, SCHEMES, dequantize, k_sizes, pack, random_parts
from tests.kernels.cpu.rows import assert_same_bits, need, rows_of, run

ROWS = [
    (scheme, row)
    for scheme in SCHEMES
    for row in rows_of("embedding", scheme=scheme.name)
    if row.layout != "n32parts"
]


def decode(row, packed: np.ndarray, ids: np.ndarray, n: int, k: int, threads: int = 1) -> np.ndarray:
    y = np.full((len(ids), k + 3), np.nan, np.float32)
    run(row, threads=threads, ids=ids, weight=packed, y=y, rows=len(ids), n=n, k=k)
    assert np.isnan(y[:, k:]).all(), f"{row.name} wrote beyond its {k} columns"
    return np.ascontiguousarray(y[:, :k])


def test_every_scheme_has_rows():
    assert {scheme for scheme, _ in ROWS} == set(SCHEMES)


@pytest.mark.parametrize("extreme", [False, True], ids=["usual", "extreme"])
@pytest.mark.parametrize(("scheme", "row"), ROWS, ids=lambda x: x.name)
def test_decodes_exactly(scheme, row, extreme):
    need(row)
    for n in (1, PANEL, PANEL + 5):
        for k in k_sizes(scheme):
            parts = random_parts(scheme, n, k, extreme=extreme)
            ids = np.random.default_rng(1).integers(0, n, 7).astype(np.int32)
            expected = dequantize(scheme, parts)[ids]
            for threads in (1, 3):
                assert_same_bits(
                    decode(row, pack(scheme, parts), ids, n, k, threads), expected, f"{row.name} n={n} k={k}"
                )


@pytest.mark.parametrize(("scheme", "row"), [r for r in ROWS if r[0].plain], ids=lambda x: x.name)
def test_every_bit_pattern_of_a_plain_float(scheme, row):
    need(row)
    if scheme.bits == 16:
        bits = np.arange(1 << 16, dtype=np.uint16).reshape(64, 1024)
    else:
        special = np.uint32(
            [0, 1 << 31, 1, 0x807FFFFF, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7FFFFF, 0x7F7FFFFF]
        )
        bits = np.concatenate(
            [special, np.random.default_rng(0).integers(0, 1 << 32, 247, np.uint32)]
        ).reshape(1, 256)
    codes = bits.view(scheme.plain)
    ids = np.arange(len(bits), dtype=np.int32)
    found = decode(row, pack(scheme, {"codes": codes}), ids, *bits.shape)
    with np.errstate(invalid="ignore"):
        assert_same_bits(found, codes.astype(np.float32), row.name)


# GGUF type, its bytes per block, and a reader of random blocks into canonical parts.
def _f16(raw, at):
    return np.ascontiguousarray(raw[..., at : at + 2]).view(np.float16)[..., 0]


def _nibbles(raw):  # low nibbles, then high nibbles
    return np.concatenate([raw & 15, raw >> 4], -1)


def _q4_0(raw):
    return {"scale": _f16(raw, 0), "codes": _nibbles(raw[..., 2:]).astype(np.int8) - 8}


def _q4_1(raw):
    return {"scale": _f16(raw, 0), "offset": _f16(raw, 2), "codes": _nibbles(raw[..., 4:])}


def _fifth_bit(raw):  # u32, bit i for element i
    return np.unpackbits(raw, axis=-1, bitorder="little") << 4


def _q5_0(raw):
    return {
        "scale": _f16(raw, 0),
        "codes": (_nibbles(raw[..., 6:]) | _fifth_bit(raw[..., 2:6])).astype(np.int8) - 16,
    }


def _q5_1(raw):
    return {
        "scale": _f16(raw, 0),
        "offset": _f16(raw, 2),
        "codes": _nibbles(raw[..., 8:]) | _fifth_bit(raw[..., 4:8]),
    }


def _q8_0(raw):
    return {"scale": _f16(raw, 0), "codes": raw[..., 2:].view(np.int8)}


def _crumbs(raw):  # 2-bit fields: 32 bytes hold 4 runs of 32 elements
    runs = raw.reshape(*raw.shape[:-1], -1, 1, 32) >> np.uint8([0, 2, 4, 6]).reshape(4, 1) & 3
    return runs.reshape(*raw.shape[:-1], -1)


def _q2_k(raw):
    return {
        "scale": raw[..., :16] & 15,
        "offset": raw[..., :16] >> 4,
        "codes": _crumbs(raw[..., 16:80]),
        "super_scale": _f16(raw, 80),
        "super_offset": _f16(raw, 82),
    }


def _q3_k(raw):
    high = np.stack([raw[..., :32] >> i & 1 for i in range(8)], -2).reshape(*raw.shape[:-1], 256)
    low = raw[..., 96:108]
    first = np.concatenate([low[..., :8] & 15, low[..., :8] >> 4], -1)
    top = np.concatenate([low[..., 8:] >> s & 3 for s in (0, 2, 4, 6)], -1)
    return {
        "codes": (_crumbs(raw[..., 32:96]) | high << 2).astype(np.int8) - 4,
        "scale": (first | top << 4).astype(np.int8) - 32,
        "super_scale": _f16(raw, 108),
    }


def _sixes(raw):  # the 12 bytes of 8 scales and 8 minima
    d, m, md = raw[..., :4], raw[..., 4:8], raw[..., 8:]
    scale = np.concatenate([d & 63, (md & 15) | (d >> 2 & 48)], -1)
    return scale, np.concatenate([m & 63, (md >> 4) | (m >> 2 & 48)], -1)


def _halves(raw):  # 128 bytes: runs of 32 low nibbles, then the 32 high nibbles of the same bytes
    return _nibbles(raw.reshape(*raw.shape[:-1], 4, 32)).reshape(*raw.shape[:-1], 256)


def _q4_k(raw):
    scale, offset = _sixes(raw[..., 4:16])
    supers = {"super_scale": _f16(raw, 0), "super_offset": _f16(raw, 2)}
    return {"scale": scale, "offset": offset, "codes": _halves(raw[..., 16:]), **supers}


def _q5_k(raw):
    scale, offset = _sixes(raw[..., 4:16])
    high = np.stack([raw[..., 16:48] >> i & 1 for i in range(8)], -2).reshape(*raw.shape[:-1], 256)
    supers = {"super_scale": _f16(raw, 0), "super_offset": _f16(raw, 2)}
    return {"scale": scale, "offset": offset, "codes": _halves(raw[..., 48:]) | high << 4, **supers}


def _q6_k(raw):
    low = raw[..., :128].reshape(*raw.shape[:-1], 2, 1, 64) >> np.uint8([0, 4]).reshape(2, 1) & 15
    codes = low.reshape(*raw.shape[:-1], 256) | _crumbs(raw[..., 128:192]) << 4
    return {
        "codes": codes.astype(np.int8) - 32,
        "scale": raw[..., 192:208].view(np.int8),
        "super_scale": _f16(raw, 208),
    }


GGUF = {
    "i4g32": ("Q4_0", _q4_0),
    "u4g32o": ("Q4_1", _q4_1),
    "i5g32": ("Q5_0", _q5_0),
    "u5g32o": ("Q5_1", _q5_1),
    "i8g32": ("Q8_0", _q8_0),
    "u2g16ot": ("Q2_K", _q2_k),
    "i3g16t": ("Q3_K", _q3_k),
    "u4g32ot": ("Q4_K", _q4_k),
    "u5g32ot": ("Q5_K", _q5_k),
    "i6g16t": ("Q6_K", _q6_k),
}


@pytest.mark.parametrize(("scheme", "row"), [r for r in ROWS if not r[0].plain], ids=lambda x: x.name)
def test_gguf_blocks_decode_as_gguf_does(scheme, row):
    need(row)
    type_name, read = GGUF[scheme.name]
    kind = gguf.GGMLQuantizationType[type_name]
    block_k, block_bytes = gguf.GGML_QUANT_SIZES[kind]
    n, blocks = 40, 3
    raw = np.random.default_rng(5).integers(0, 256, (n, blocks, block_bytes), np.uint8)
    parts = read(raw)
    supers = [role for role in ("super_scale", "super_offset") if scheme.two_level and role in parts]
    for role in supers or [role for role in ("scale", "offset") if role in parts]:
        # random bytes hold infinities and NaN as well; such a block means nothing, so those become large and finite
        wrong = ~np.isfinite(parts[role])
        at = {
            "scale": 0,
            "offset": 2,
            "super_scale": {"Q2_K": 80, "Q3_K": 108, "Q6_K": 208}.get(type_name, 0),
        }
        at["super_offset"] = at["super_scale"] + 2
        raw[..., at[role] + 1][wrong] &= 0x83
    parts = {role: np.ascontiguousarray(part).reshape(n, -1) for role, part in read(raw).items()}
    expected = gguf.quants.dequantize(raw.reshape(n, -1), kind)
    ids = np.arange(n, dtype=np.int32)
    found = decode(row, pack(scheme, parts), ids, n, blocks * block_k)
    assert_same_bits(found, np.ascontiguousarray(expected, np.float32), f"{row.name} against {type_name}")
