"""The cases of every op. A row whose op has none here fails the product test by itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from fewbit.spec.cell import KernelRow
from tests.matrix import cache, small_ops, weights
from tests.matrix.problem import Problem

CASES: dict[str, Callable[[KernelRow], Iterator[Problem]]] = {
    "linear": weights.linear,
    "embedding": weights.embedding,
    "pack": weights.pack,
    "rms_norm": small_ops.rms_norm,
    "rope_angles": small_ops.rope_angles,
    "rope": small_ops.rope,
    "swiglu": small_ops.swiglu,
    "gather_rows": small_ops.gather_rows,
    "sample": small_ops.sample,
    "kv_store": cache.kv_store,
    "attention": cache.attention,
}
