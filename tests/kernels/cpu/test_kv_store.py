"""kv_store rows: every rounding case of bf16, and where each element lands."""

from __future__ import annotations

import numpy as np
import pytest

from fewbit.kernels.ops import kv_page
from tests.kernels.cpu.rows import assert_same_bits, need, rows_of, run

ROWS = rows_of("kv_store")
KV_HEADS, HEAD_DIM = 3, 48


def store(row, k, v, slots, pages, kv_heads=KV_HEADS, head_dim=HEAD_DIM, threads=1):
    caches = [np.full((pages, 32 * kv_heads * head_dim), 0x1234, np.uint16) for _ in range(2)]
    run(
        row,
        threads=threads,
        k=k,
        v=v,
        k_cache=caches[0],
        v_cache=caches[1],
        slots=slots,
        rows=len(k),
        kv_heads=kv_heads,
        head_dim=head_dim,
    )
    return caches


def nearest_bf16(x: np.ndarray) -> np.ndarray:
    """Of the two neighbours the nearer one, ties to the even one: written with values, not with the rounding trick."""
    word = x.view(np.uint32)
    down = (word & 0xFFFF0000).view(np.float32)
    up = ((word & 0xFFFF0000) + 0x10000).astype(np.uint32).view(np.float32)
    with np.errstate(all="ignore"):
        up64 = np.where(np.isinf(up), np.copysign(2.0**128, x.astype(np.float64)), up.astype(np.float64))
        below, above = np.abs(x.astype(np.float64) - down), np.abs(up64 - x)
    odd = (word >> 16 & 1).astype(bool)
    bits = (
        np.where((above < below) | ((above == below) & odd), up.view(np.uint32), down.view(np.uint32)) >> 16
    )
    bits = np.where(np.isinf(x), word >> 16, bits)
    return np.where(np.isnan(x), word >> 16 | 0x40, bits).astype(np.uint16)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
def test_every_rounding_case(row):
    """All 65536 upper halves (+-0, subnormals, infinities, NaN) with lower halves around the tie."""
    need(row)
    upper = np.arange(1 << 16, dtype=np.uint32) << 16
    words = np.concatenate([upper | low for low in (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)])
    head_dim = 1024
    x = words.view(np.float32).reshape(-1, head_dim)
    slots = np.arange(len(x), dtype=np.int32)
    k_cache, v_cache = store(row, x, x, slots, len(x) // 32, 1, head_dim)
    expected = nearest_bf16(x.ravel()).reshape(x.shape)
    found_k = kv_page.split_keys(k_cache, 1, head_dim).transpose(0, 2, 1, 3, 4).reshape(x.shape)
    found_v = kv_page.split_values(v_cache, 1, head_dim).transpose(0, 2, 3, 1, 4).reshape(x.shape)
    assert_same_bits(found_k.copy(), expected, "keys")
    assert_same_bits(found_v.copy(), expected, "values")
    nan = np.isnan(x)
    assert ((found_k[nan] & 0x7F80) == 0x7F80).all() and (found_k[nan] & 0x40).all()


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)
@pytest.mark.parametrize("rows", (1, 2, 31, 32, 33, 70))
def test_places_skipped_rows_and_threads(row, rows):
    need(row)
    rng = np.random.default_rng(rows)
    k, v = rng.standard_normal((2, rows, KV_HEADS * HEAD_DIM), np.float32)
    slots = rng.permutation(6 * 32)[:rows].astype(np.int32)
    slots[rng.random(rows) < 0.2] = -1
    expected = [np.full((6, 32 * KV_HEADS * HEAD_DIM), 0x1234, np.uint16) for _ in range(2)]
    rounded = [nearest_bf16(x.ravel()).reshape(rows, KV_HEADS, HEAD_DIM) for x in (k, v)]
    kv_page.store(
        kv_page.split_keys(expected[0], KV_HEADS, HEAD_DIM),
        kv_page.split_values(expected[1], KV_HEADS, HEAD_DIM),
        slots,
        *rounded,
    )
    for threads in (1, 2, 3):
        found = store(row, k, v, slots, 6, threads=threads)
        assert_same_bits(found[0], expected[0], "keys")
        assert_same_bits(found[1], expected[1], "values")
