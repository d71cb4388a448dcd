"""The row order of q and k in `llama` files, undone.

Canonical order keeps a head's rotating pair as rows (j, j + head_dim/2); the file keeps it as rows (2j, 2j + 1):

    canonical row  half * head_dim/2 + j   <-   disk row  2 * j + half          within each head
"""

from __future__ import annotations

import numpy as np

from fewbit.schemes.arrays import Array


def disk_rows(start: int, stop: int, head_dim: int) -> Array:
    """Disk row of each canonical row in [start, stop)."""
    head, row = np.divmod(np.arange(start, stop), head_dim)
    half, pair = np.divmod(row, head_dim // 2)
    rows: Array = head * head_dim + 2 * pair + half
    return rows


def covering_rows(start: int, stop: int, head_dim: int) -> tuple[int, int]:
    """The least run of whole heads that holds canonical rows [start, stop)."""
    return start // head_dim * head_dim, -(-stop // head_dim) * head_dim
