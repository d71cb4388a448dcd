"""kv_store: writes the step's keys and values into their slots of the paged cache (kv_page.py says where).

slots[r] = page * 32 + offset; -1 skips the row. A bf16 cache rounds to nearest even.
"""

from __future__ import annotations

import numpy as np

from fewbit.kernels.ops import kv_page
from fewbit.kernels.ops.contract import parse
from fewbit.schemes.arrays import round_bf16

CONTRACT = parse(
    "kv_store",
    "k:f32[rows_max,kv_heads*head_dim] v:f32[rows_max,kv_heads*head_dim] "
    "k_cache:cache[pages,32*kv_heads*head_dim] v_cache:cache[pages,32*kv_heads*head_dim] "
    "slots:i32[rows_max] rows:i32[1] kv_heads:int head_dim:int",
)


def reference(
    k: np.ndarray,
    v: np.ndarray,
    k_cache: np.ndarray,
    v_cache: np.ndarray,
    slots: np.ndarray,
    rows: np.ndarray,
    kv_heads: int,
    head_dim: int,
) -> None:
    m = int(rows[0])
    k, v = k[:m].reshape(m, kv_heads, head_dim), v[:m].reshape(m, kv_heads, head_dim)
    if k_cache.dtype == np.uint16:  # bf16 bits
        k, v = round_bf16(k), round_bf16(v)
    keys, values = (
        kv_page.split_keys(k_cache, kv_heads, head_dim),
        kv_page.split_values(v_cache, kv_heads, head_dim),
    )
    kv_page.store(keys, values, slots[:m], k, v)
