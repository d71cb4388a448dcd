"""Layout n32parts: every weight that a linear row decodes is the reference's, bit for bit, and rows of many schemes share code."""

from __future__ import annotations

import numpy as np
import pytest

from fewbit import layouts
from fewbit.layouts.n32parts.reference import pack
from fewbit.registry.declare import PARTS
from fewbit.schemes.arrays import round_bf16, widen_bf16
from fewbit.schemes.named import named
from fewbit.schemes.reference import dequantize
from fewbit.spec.cell import KernelRow
from tests.kernels.cpu.packed import aligned
from tests.kernels.cpu.rows import assert_same_bits, need, rows_of, run
from tests.matrix.named import random_tensor

CASES = [
    pytest.param(row, scale, id=f"{row.name}-{scale}")
    for row in rows_of("linear", layout="n32parts")
    if row.activation in ("f32", "bf16w")
    for scale in row.scale_dtypes
    if row.requires <= frozenset({"avx2", "fma", "f16c", "bmi2"}) or scale == row.scale_dtypes[0]
]


@pytest.mark.parametrize(("row", "scale"), CASES)
def test_every_decoded_weight_is_the_reference_s(row: KernelRow, scale: str) -> None:
    """x = e_k picks single weights; a zero may lose its sign in the sum."""
    need(row)
    n, k = 33, max(named(row.scheme, scale, 32).block_k, 32) * 2
    tensor = random_tensor(named(row.scheme, scale, k), n, k, np.random.default_rng([k]))
    weight = dequantize(tensor)
    seen = widen_bf16(round_bf16(weight)) if row.activation == "bf16w" else weight
    packed = aligned(pack(tensor, layouts.layout("n32parts", tensor.scheme)))
    y = np.zeros((k, n), np.float32)
    x = np.eye(k, dtype=np.float32)
    run(row, threads=2, capacity=k, x=x, weight=packed, bias=None, y=y, accumulate=0, rows=k, n=n, k=k)
    assert_same_bits(y + np.float32(0), np.ascontiguousarray(seen.T) + np.float32(0), row.name)


def test_what_is_listed_is_compiled() -> None:
    from fewbit.kernels.cpu import library

    compiled = set(library.row_names())
    assert {f"linear_{name}_f32_n32parts_scalar" for name in PARTS} <= compiled
    assert {f"pack_{name}_n32parts_scalar" for name in PARTS} <= compiled
