"""Cases of the ops over packed weights: linear, embedding, pack."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fewbit.kernels.ops.gate import SILU, Gate
from fewbit.kernels.ops.input_codes import InputCodes
from fewbit.kernels.ops.rms_norm import normalized
from fewbit.schemes import SCHEMES
from fewbit.schemes.named import named
from fewbit.schemes.reference import dequantize
from fewbit.schemes.tolerance import linear_tolerance
from fewbit.spec.cell import KernelRow
from tests.matrix.problem import CANARY, Problem, random_weight

PANEL = 32  # rows of a panel of the layouts
WHOLE = (
    "i2g64",
    "u3g128z",
    "u4g128z",
    "u5g64o",
    "u6g64o",
    "i8channel",
    "e4m3b128x128",
    "e5m2channel",
    "e2m1g32",
    "e2m1g16s",
)
ROWS = (
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    13,
    14,
    15,
    16,
    17,
    31,
    32,
    33,
    48,
)  # around the register tiles of 4, 6, 14, 16, 32 rows


def shapes(row: KernelRow) -> list[tuple[int, int]]:
    """(n, k) around the panel and the block. N is cut into panels and K walked in blocks, independently, so pairs will do."""
    if row.layout == "n32parts":
        return _apart(row)
    scheme = SCHEMES[row.scheme]
    block = 32 if scheme.is_plain else scheme.block_k
    ks = (
        [1, 31, 32, 33, 100, 256]
        if scheme.is_plain
        else [block, 2 * block, 3 * block, block, 5 * block, 7 * block]
    )
    return list(zip([1, PANEL - 1, PANEL, PANEL + 1, 3 * PANEL, 2 * PANEL + 15], ks, strict=True))


def _apart(row: KernelRow) -> list[tuple[int, int]]:
    """All schemes of a kind of codes run the same code, which reads the group from the weight: the whole grid for one of each
    kind, a group more than one and a panel's border for the others."""
    unit = max(named(row.scheme, row.scale_dtypes[0], 32).block_k, 32)
    if row.scheme not in WHOLE:
        return [(PANEL + 1, 3 * unit)]
    return list(
        zip(
            [1, PANEL - 1, PANEL, PANEL + 1, 3 * PANEL, 150],
            [unit * i for i in (1, 2, 3, 1, 5, 2)],
            strict=True,
        )
    )


def rows_around(row: KernelRow) -> list[int]:
    """Row counts that the row serves: the fixed ones, and both ends of its interval."""
    low, high = row.m_range
    return sorted({m for m in (*ROWS, low, low + 1, high) if low <= m <= min(high, 64)})


def linear(row: KernelRow) -> Iterator[Problem]:
    rng = np.random.default_rng(7)
    counts = rows_around(row)
    for index, (n, k) in enumerate(shapes(row)):
        weight = random_weight(row, n, k, rng)
        dense = dequantize(weight)
        every = n == PANEL + 1 and row.scheme in (*SCHEMES, *WHOLE)
        for m in counts if every else counts[index :: len(ROWS) // 3] or counts[:1]:
            x = rng.standard_normal((m + 1, k)).astype(np.float32)
            bias = rng.standard_normal(n).astype(np.float32) if index % 2 else None
            y = np.full((m + 1, n), CANARY)
            args = {
                "x": x,
                "weight": weight,
                "bias": bias,
                "y": y,
                "rows": np.array([m], np.int32),
                "accumulate": m % 2,
                "norm": None,
                "eps": 0.0,
                **InputCodes().numbers(),
                "fold": 1,
                **SILU.numbers(),
            }
            unit = np.full((m + 1, n), 1e-30)
            unit[:m] += linear_tolerance(x[:m], dense, row.activation).worst
            # the bound doubles for the reference's own roundings; bias and residual add two more, of the sum's size
            unit[:m] = 2 * unit[:m] + 2.0**-22 * (np.abs(x[:m] @ dense.T) + abs(CANARY) + 4)
            yield Problem(f"m={m} n={n} k={k}", "linear", args, {"y": unit}, allowed=1.0)
    yield from _folded(row, counts, rng)
    yield from _normed(row, counts, rng)


def _normed(row: KernelRow, counts: list[int], rng: np.random.Generator) -> Iterator[Problem]:
    """The norm of x adds (K + 6) u of each x, as that of rms_norm does."""
    n, k = PANEL + 1, shapes(row)[-1][1]
    weight = random_weight(row, n, k, rng)
    dense, norm = dequantize(weight), (1 + rng.standard_normal(k) / 4).astype(np.float32)
    normed_counts = [count for count in counts if count <= row.norm_rows]
    for m in {*normed_counts[:1], *normed_counts[-1:]}:  # the last, since norm_rows is the kernel's own bound
        x = rng.standard_normal((m + 1, k)).astype(np.float32) * 3
        args = {
            "x": x,
            "weight": weight,
            "bias": None,
            "norm": norm,
            "eps": 1e-5,
            **InputCodes().numbers(),
            "y": np.full((m + 1, n), CANARY),
        }
        args |= {"rows": np.array([m], np.int32), "accumulate": 0, "fold": 1, **SILU.numbers()}
        normed = normalized(x[:m], norm, 1e-5)
        unit = np.full((m + 1, n), 1e-30)
        unit[:m] += 2 * linear_tolerance(normed, dense, row.activation).worst
        unit[:m] += (k + 16) * 2.0**-24 * (np.abs(normed) @ np.abs(dense).T)
        yield Problem(f"normed m={m} n={n} k={k}", "linear", args, {"y": unit}, allowed=1.0)


def _folded(row: KernelRow, counts: list[int], rng: np.random.Generator) -> Iterator[Problem]:
    """Gates and ups in one weight. With eg and eu the errors of a gate g and an up u, and |silu'| <= 1.1,
    |silu(g + eg) (u + eu) - silu(g) u| <= 1.1 eg (|u| + eu) + |silu(g)| eu, and 16 u of the result for the gate's own arithmetic.
    """
    k = shapes(row)[1][1] if row.layout != "n32parts" else shapes(row)[-1][1]
    for n, form, bias in (
        (2 * PANEL, SILU, None),
        (6 * PANEL, Gate(1.5, 1.0, 2.0), rng.standard_normal(6 * PANEL)),
    ):
        weight = random_weight(row, n, k, rng)
        dense = dequantize(weight)
        for m in (counts[0], counts[-1]):
            x = rng.standard_normal((m + 1, k)).astype(np.float32)
            args = {"x": x, "weight": weight, "bias": None if bias is None else bias.astype(np.float32)}
            args |= {"y": np.full((m + 1, n // 2), CANARY), "rows": np.array([m], np.int32), "accumulate": 0}
            args |= {"norm": None, "eps": 0.0, "fold": 2, **form.numbers(), **InputCodes().numbers()}
            exact = x[:m] @ dense.T + (0 if bias is None else bias)
            off = 2 * linear_tolerance(x[:m], dense, row.activation).worst + 2.0**-22 * np.abs(exact)
            (gate, up), (off_gate, off_up) = np.split(exact, 2, axis=1), np.split(off, 2, axis=1)
            size = np.abs(up) + form.shift
            unit = np.full((m + 1, n // 2), 1e-30)
            unit[:m] += 1.1 * form.alpha * off_gate * (size + off_up) + np.abs(gate) * off_up
            unit[:m] += 2.0**-20 * np.abs(gate) * size
            yield Problem(f"folded m={m} n={n} k={k}", "linear", args, {"y": unit}, allowed=1.0)


def embedding(row: KernelRow) -> Iterator[Problem]:
    rng = np.random.default_rng(8)
    for n, k in shapes(row):
        for m in (1, 5):
            ids = rng.integers(0, n, m + 1).astype(np.int32)
            args = {
                "ids": ids,
                "weight": random_weight(row, n, k, rng),
                "y": np.full((m + 1, k), CANARY),
            }
            args["rows"] = np.array([m], np.int32)
            yield Problem(f"m={m} n={n} k={k}", "embedding", args, {"y": 1.0})


def pack(row: KernelRow) -> Iterator[Problem]:
    """Run apart (run.py): what is compared are the bytes, with those of the layout's reference."""
    rng = np.random.default_rng(9)
    for n, k in shapes(row):
        yield Problem(f"n={n} k={k}", "pack", {"weight": random_weight(row, n, k, rng)}, {"packed": 1.0})
