"""Cases of the ops between the matrix products: norm, rotary embedding, gate, gather, sampling.

u = 2^-24 is the unit roundoff of f32. Each op's unit is what its roundings are relative to.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fewbit.kernels.ops.gate import SILU, Gate
from fewbit.spec.cell import KernelRow
from tests.matrix.problem import CANARY, Problem

U = 2.0**-24
DIMS = (1, 15, 16, 17, 31, 32, 33, 100, 576)  # around one and two vectors of 16 and 8 lanes, and a real width
ROWS = (1, 3, 8)


def live(m: int) -> np.ndarray:
    return np.array([m], np.int32)


def floats(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.standard_normal(shape).astype(np.float32)


def rms_norm(row: KernelRow) -> Iterator[Problem]:
    """A sum of dim squares, a root, two products: (dim + 6) u of the result; the residual's sum is exact to u."""
    rng = np.random.default_rng(1)
    for dim in DIMS:
        for m, rows_per, with_residual in ((1, 1, True), (3, 1, False), (8, 3, False), (5, 1, True)):
            x, residual = floats(rng, m + 1, rows_per * dim), floats(rng, m + 1, rows_per * dim)
            args = {"x": x, "weight": floats(rng, dim), "y": np.full_like(x, CANARY), "rows": live(m)}
            args |= {"residual": residual if with_residual else None, "rows_per": rows_per, "eps": 1e-5}
            problem = Problem("", "rms_norm", args, {"y": 1.0})
            units = {"y": np.abs(problem.expected()["y"]) + 1e-30}
            if with_residual:
                units["residual"] = np.abs(x) + np.abs(residual)
            case = f"m={m} vectors={rows_per} dim={dim}{' residual' if with_residual else ''}"
            yield Problem(case, "rms_norm", args, units, allowed=(dim + 6) * U)


GATES = (SILU, Gate(alpha=1.702, shift=1.0, limit=7.0))  # the second is that of gpt-oss


def swiglu(row: KernelRow) -> Iterator[Problem]:
    """exp to 2^-22, a division and two products: 16 u of the result. Below a gate of -88 exp(-gate) leaves f32 and silu may be
    0 where it is at most 2^-121, which is 16 u of 2^-101. A shift of `up` is one rounding more.
    """
    rng = np.random.default_rng(2)
    for dim in DIMS:
        for m in ROWS:
            gate_up = floats(rng, m + 1, 2 * dim) * np.float32(4)
            gate_up[0, 0] = -100
            args = {"gate_up": gate_up, "y": np.full((m + 1, dim), CANARY), "rows": live(m)}
            args |= GATES[m % 2].numbers()
            unit = np.abs(Problem("", "swiglu", args, {"y": 1.0}).expected()["y"]) + 2.0**-100
            yield Problem(f"m={m} dim={dim}", "swiglu", args, {"y": unit}, allowed=16 * U)


def rope_angles(row: KernelRow) -> Iterator[Problem]:
    """Cosine and sine in double, rounded once, times the scale: 2 u of at most the scale."""
    rng = np.random.default_rng(3)
    for half in (1, 8, 16, 32, 64):
        for m, scale in ((1, 1.0), (7, 1.25)):
            positions = rng.integers(0, 131072, m + 1).astype(np.int32)
            inv_freq = (10000.0 ** -(np.arange(half) / half)).astype(np.float32)
            cos, sin = np.full((m + 1, half), CANARY), np.full((m + 1, half), CANARY)
            args = {
                "positions": positions,
                "inv_freq": inv_freq,
                "cos": cos,
                "sin": sin,
                "rows": live(m),
                "scale": scale,
            }
            yield Problem(
                f"m={m} half={half}", "rope_angles", args, {"cos": scale, "sin": scale}, allowed=2 * U
            )


def rope(row: KernelRow) -> Iterator[Problem]:
    """Two products and a sum of two elements: 3 u of |a| + |b|, at most 6 here."""
    rng = np.random.default_rng(4)
    for head_dim, rotary_dim in ((16, 16), (32, 16), (64, 64), (80, 64), (96, 96), (128, 32)):
        for m, heads in ((1, 1), (5, 3)):
            angles = rng.uniform(0, 6.28, (m + 1, rotary_dim // 2))
            args = {
                "x": floats(rng, m + 1, heads * head_dim),
                "rows": live(m),
                "heads": heads,
                "head_dim": head_dim,
            }
            args |= {
                "cos": np.float32(np.cos(angles)),
                "sin": np.float32(np.sin(angles)),
                "rotary_dim": rotary_dim,
            }
            yield Problem(
                f"m={m} heads={heads} {head_dim}/{rotary_dim}", "rope", args, {"x": 6.0}, allowed=3 * U
            )


def gather_rows(row: KernelRow) -> Iterator[Problem]:
    rng = np.random.default_rng(5)
    for dim in DIMS:
        for m in ROWS:
            index = rng.integers(0, 9, m + 1).astype(np.int32)
            args = {
                "x": floats(rng, 9, dim),
                "index": index,
                "y": np.full((m + 1, dim), CANARY),
                "rows": live(m),
            }
            yield Problem(f"m={m} dim={dim}", "gather_rows", args, {"y": 1.0})


def sample(row: KernelRow) -> Iterator[Problem]:
    """Tokens must be the reference's; log-probabilities: a sum of vocab exponentials, 64 u of the largest |logit| + log vocab.

    `uniform` is drawn, so that it lies on the edge between two tokens with no seed here.
    """
    rng = np.random.default_rng(6)
    settings = [
        (0.0, 0, 1.0, 0.0),
        (1.0, 0, 1.0, 0.0),
        (0.7, 40, 1.0, 0.0),
        (1.3, 0, 0.9, 0.0),
        (1.0, 0, 1.0, 0.05),
    ]
    settings += [(0.8, 5, 0.5, 0.1), (2.0, 1, 1.0, 0.0)]
    for vocab in (20, 33, 257, 4099):
        m = len(settings)
        logits = (floats(rng, m + 2, vocab) * 3).astype(np.float32)
        logits[m, vocab // 2] = np.nan  # the last live row is refused, not sampled
        columns = np.array([*settings, (1.0, 0, 1.0, 0.0), (1.0, 0, 1.0, 0.0)]).T
        top_n = np.array([0, 1, 5, 20, 20, 3, 2, 0, 0], np.int32)
        args = {"logits": logits, "rows": live(m + 1), "top_k": columns[1].astype(np.int32), "top_n": top_n}
        args |= {
            name: columns[i].astype(np.float32)
            for name, i in (("temperature", 0), ("top_p", 2), ("min_p", 3))
        }
        args |= {"uniform": rng.random(m + 2).astype(np.float32), "logprob": np.full(m + 2, CANARY)}
        args |= {name: np.full(m + 2, -7, np.int32) for name in ("ids", "nan")}
        args |= {"top_ids": np.full((m + 2, 20), -7, np.int32), "top_logprobs": np.full((m + 2, 20), CANARY)}
        wanted = np.arange(20) < top_n[:, None]
        size = float(np.nanmax(np.abs(logits)) + np.log(vocab))
        # a whole number that differs is off by at least 1, far beyond what is allowed
        outputs = {"ids": 1.0, "nan": 1.0, "logprob": size, "top_ids": 1.0, "top_logprobs": size}
        defined = {"top_ids": wanted, "top_logprobs": wanted}
        yield Problem(f"rows={m + 1} vocab={vocab}", "sample", args, outputs, allowed=64 * U, defined=defined)
