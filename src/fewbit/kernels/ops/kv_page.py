"""Where the elements of a page of keys or values lie. A page holds 32 tokens of one layer, all key/value heads.

    keys    [kv_heads][head_dim/2][32 tokens][2]     lanes over tokens; pairs along head_dim, as dot products want them
    values  [kv_heads][16 token pairs][head_dim][2]  lanes over head_dim; pairs along tokens

bf16 on the CPU; the reference keeps f32 when asked to. Page 0 is a scratch page that no sequence owns.
"""

from __future__ import annotations

import numpy as np

PAGE_TOKENS = 32


def split_keys(pages: np.ndarray, kv_heads: int, head_dim: int) -> np.ndarray:
    """View [pages, kv_heads, 32 tokens, head_dim/2, 2] of keys."""
    return pages.reshape(-1, kv_heads, head_dim // 2, PAGE_TOKENS, 2).transpose(0, 1, 3, 2, 4)


def split_values(pages: np.ndarray, kv_heads: int, head_dim: int) -> np.ndarray:
    """View [pages, kv_heads, 16, 2, head_dim] of values; axes 2 and 3 are the token."""
    return pages.reshape(-1, kv_heads, PAGE_TOKENS // 2, head_dim, 2).transpose(0, 1, 2, 4, 3)


def store(keys: np.ndarray, values: np.ndarray, slots: np.ndarray, k: np.ndarray, v: np.ndarray) -> None:
    """k, v [rows, kv_heads, head_dim] into the split views; rows whose slot is negative are skipped."""
    kept = slots >= 0
    page, offset = np.divmod(slots[kept], PAGE_TOKENS)
    rows, kv_heads, head_dim = k[kept].shape
    keys[page, :, offset] = k[kept].reshape(rows, kv_heads, head_dim // 2, 2)
    values[page, :, offset // 2, offset % 2] = v[kept]


def load(
    keys: np.ndarray, values: np.ndarray, page_table: np.ndarray, tokens: int
) -> tuple[np.ndarray, np.ndarray]:
    """The first `tokens` keys and values of a sequence, each [kv_heads, tokens, head_dim]."""
    pages = page_table[: -(-tokens // PAGE_TOKENS)]
    _, kv_heads, _, half, _ = keys.shape
    k = keys[pages].transpose(1, 0, 2, 3, 4).reshape(kv_heads, -1, 2 * half)
    v = values[pages].transpose(1, 0, 2, 3, 4).reshape(kv_heads, -1, 2 * half)
    return k[:, :tokens], v[:, :tokens]
