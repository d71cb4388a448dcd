"""attention rows: f64 reference with derived bounds; the same bits whatever the chunking, batch, threads and instruction set.

The `case` fixture data: sequences of unequal length over pages in shuffled order, in a cache whose unwritten slots hold NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from fewbit.kernels.ops import kv_page
from tests.kernels.cpu.rows import assert_close, assert_same_bits, need, rows_of, run

U = 2.0**-24
ROWS = rows_of("attention")
F32 = rows_of("attention", activation="f32")
TILES = rows_of("attention", activation="bf16")
SCALAR, EMULATED = "attention_bf16_f32_paged32_scalar", "attention_bf16_bf16_paged32_amx_emulated"
by_name = pytest.mark.parametrize("row", ROWS, ids=lambda r: r.name)


@dataclass(frozen=True)
class Case:
    """`new` query tokens of each sequence, the last of its `kv_len` tokens."""

    new: tuple[int, ...]
    kv_len: tuple[int, ...]
    heads: int = 6
    kv_heads: int = 2
    head_dim: int = 64
    window: int = 0
    seed: int = 0

    def arrays(self) -> dict[str, np.ndarray]:
        """Keys and values of all tokens as f32, queries of all tokens (so that a prefill can be cut), and the paged cache."""
        rng = np.random.default_rng(self.seed)
        pages = [-(-n // 32) for n in self.kv_len]
        numbers = iter(rng.permutation(sum(pages)) + 1)
        table = np.zeros((len(pages), max([*pages, 1])), np.int32)
        caches = [
            np.full((sum(pages) + 1, 32 * self.kv_heads * self.head_dim), 0x7FC1, np.uint16) for _ in range(2)
        ]
        views = (
            kv_page.split_keys(caches[0], self.kv_heads, self.head_dim),
            kv_page.split_values(caches[1], self.kv_heads, self.head_dim),
        )
        queries, keys, values = [], [], []
        for s, (tokens, new) in enumerate(zip(self.kv_len, self.new)):
            table[s, : pages[s]] = [next(numbers) for _ in range(pages[s])]
            k, v = (
                rng.standard_normal((2, tokens, self.kv_heads, self.head_dim), np.float32).view(np.uint32)
                >> 16
            ).astype(np.uint16)
            slots = table[s, np.arange(tokens) // 32] * 32 + np.arange(tokens) % 32
            kv_page.store(*views, slots, k, v)
            queries.append(
                1.5 * rng.standard_normal((max(tokens, new), self.heads * self.head_dim), np.float32)
            )
            keys.append((k.astype(np.uint32) << 16).view(np.float32))
            values.append((v.astype(np.uint32) << 16).view(np.float32))
        return {
            "queries": queries,
            "keys": keys,
            "values": values,
            "table": table,
            "k_cache": caches[0],
            "v_cache": caches[1],
        }


def attend(row, case: Case, data: dict, threads: int = 1) -> list[np.ndarray]:
    """Output of each sequence, [new, heads * head_dim]."""
    q = np.concatenate(
        [x[max(n - new, 0) :][:new] for x, n, new in zip(data["queries"], case.kv_len, case.new)]
    )
    q_start = np.cumsum([0, *case.new]).astype(np.int32)
    out = np.full_like(q, 7)
    run(
        row, threads=threads, q=q, k_cache=data["k_cache"], v_cache=data["v_cache"], page_table=data["table"], seqs=len(case.new),
        q_start=q_start, kv_len=np.array(case.kv_len, np.int32), out=out, heads=case.heads, kv_heads=case.kv_heads,
        head_dim=case.head_dim, max_seqs=len(case.new), max_kv_len=max(case.kv_len), scale=case.head_dim**-0.5, window=case.window,
    )  # fmt: skip
    return np.split(out, q_start[1:-1])


def check_values(row, case: Case, data: dict, found: list[np.ndarray]) -> None:
    tiles = row.activation == "bf16"
    for s, (tokens, new) in enumerate(zip(case.kv_len, case.new)):
        group = case.heads // case.kv_heads
        q = (
            data["queries"][s][tokens - new : tokens]
            .astype(np.float64)
            .reshape(new, case.kv_heads, group, case.head_dim)
        )
        k, v = data["keys"][s].astype(np.float64), data["values"][s].astype(np.float64)
        scale = case.head_dim**-0.5
        position, token = np.arange(tokens - new, tokens)[:, None], np.arange(tokens)
        seen = (token <= position) & (token > position - (case.window or tokens + 1))
        scores = np.where(seen, np.einsum("rgjd,tgd->gjrt", q, k) * scale, -np.inf)
        # A score is off by the rounding of q (bf16: 2^-9) and a chain of head_dim fused steps, relative to its terms' magnitudes.
        score_error = ((2.0**-9 if tiles else 0) + (case.head_dim + 4) * U) * np.where(
            seen, np.einsum("rgjd,tgd->gjrt", abs(q), abs(k)) * scale, 0
        ).max(-1)
        weights = np.exp(scores - scores.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        expected = np.einsum("gjrt,tgd->rgjd", weights, v)
        magnitude = np.einsum("gjrt,tgd->rgjd", weights, abs(v))
        # Weights: e^(+-2 score errors), the polynomial, (bf16: 2^-9 above and below the line); sums: a chain of 256, then one per chunk.
        chunks = -(-tokens // 256)
        relative = (
            np.expm1(2 * score_error) + (2.0**-8 + 1e-5 if tiles else 3e-7) + (256 + 24 + 6 * chunks) * U
        )
        bound = relative.transpose(2, 0, 1)[..., None] * magnitude + 1e-30
        assert_close(found[s], expected.reshape(new, -1), bound.reshape(new, -1), f"{row.name}, sequence {s}")


CASES = {
    "one token": Case((1,), (1,)),
    "sizes around a page": Case((1, 31, 32, 33), (1, 31, 32, 33)),
    "sizes around a chunk": Case((1, 1, 1, 5), (255, 256, 257, 513)),
    "prefill beside decode, unequal lengths": Case((1, 40, 1, 7), (300, 40, 3, 700)),
    "multi-head": Case((9, 1), (70, 290), heads=3, kv_heads=3),
    "one key head for eight": Case((25, 1), (40, 270), heads=8, kv_heads=1),
    "groups of four": Case((13, 1), (40, 270), heads=8, kv_heads=2),
    "seven heads": Case((8, 1), (33, 520), heads=7, kv_heads=1, head_dim=32),
    "head_dim 32": Case((20,), (300,), head_dim=32),
    "head_dim 128": Case((20,), (300,), head_dim=128),
    "head_dim 256": Case((7,), (270,), heads=2, head_dim=256),
    "window of one": Case((9, 1), (40, 300), window=1),
    "window inside a tile": Case((40, 1), (300, 300), window=3),
    "window over chunks": Case((70, 1), (70, 1000), window=300),
    "window on a chunk's edge": Case((3, 2), (600, 514), window=256),
}
ODD_HEADS = {f"head_dim {d}": Case((20, 1), (40, 300), heads=6, kv_heads=2, head_dim=d) for d in (16, 48, 80)}
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
odd_heads = pytest.mark.parametrize("case", ODD_HEADS.values(), ids=ODD_HEADS.keys())


@cases
@by_name
def test_values(row, case):
    need(row)
    data = case.arrays()
    check_values(row, case, data, attend(row, case, data))


@odd_heads
@pytest.mark.parametrize("row", F32, ids=lambda r: r.name)
def test_values_of_heads_that_tiles_cannot_take(row, case):
    need(row)
    data = case.arrays()
    found = attend(row, case, data)
    check_values(row, case, data, found)
    for a, b in zip(found, attend(SCALAR, case, data, threads=2)):
        assert_same_bits(a, b, row.name)


@cases
@by_name
def test_same_bits_on_every_isa_and_thread_count(row, case):
    need(row)
    data = case.arrays()
    expected = attend(SCALAR if row in F32 else EMULATED, case, data)
    for threads in (1, 2, 3, 8):
        for s, (a, b) in enumerate(zip(attend(row, case, data, threads), expected)):
            assert_same_bits(a, b, f"{row.name} on {threads} threads, sequence {s}")


@by_name
@pytest.mark.parametrize("window", (0, 100))
def test_chunked_prefill_gives_the_bits_of_the_whole(row, window):
    need(row)
    case = Case((300,), (300,), heads=6, kv_heads=2, head_dim=32, window=window)
    data = case.arrays()
    whole = attend(row, case, data)[0]
    done = 0
    for new in (1, 6, 25, 32, 100, 135, 1):
        done += new
        piece = attend(row, replace(case, new=(new,), kv_len=(done,)), data, threads=1 + done % 3)[0]
        assert_same_bits(piece, whole[done - new : done], f"rows {done - new}..{done - 1}")
    assert done == 300


@by_name
def test_a_sequence_does_not_depend_on_the_batch(row):
    need(row)
    case = Case((1, 20, 1, 3, 64), (600, 20, 33, 280, 64), head_dim=32)
    data = case.arrays()
    together = attend(row, case, data, threads=3)
    for s in range(5):
        alone = {**data, "queries": data["queries"][s : s + 1], "table": data["table"][s : s + 1]}
        found = attend(row, replace(case, new=case.new[s : s + 1], kv_len=case.kv_len[s : s + 1]), alone)
        assert_same_bits(found[0], together[s], f"sequence {s}")


@by_name
def test_padded_sequences_answer_zeros(row):
    """A captured plan pads its batch with sequences that see nothing."""
    need(row)
    case = Case((2, 1, 1), (40, 0, 0), head_dim=32)
    data = case.arrays()
    found = attend(row, case, data, threads=2)
    check_values(row, replace(case, new=(2,), kv_len=(40,)), data, found[:1])
    assert not found[1].any() and not found[2].any()


@pytest.mark.parametrize("row", F32, ids=lambda r: r.name)
def test_a_nan_reaches_the_rows_that_see_it_alone(row):
    need(row)
    case = Case((70,), (70,), heads=2, kv_heads=1, head_dim=16)
    data = case.arrays()
    clean = attend(row, case, data)[0]
    page, token = data["table"][0, 1], 41 - 32
    kv_page.split_values(data["v_cache"], 1, 16)[page, 0, token // 2, token % 2] = 0x7FC0
    broken = attend(row, case, data)[0]
    assert_same_bits(broken[:41], clean[:41], "rows before the NaN")
    assert np.isnan(broken[41:]).all()


@by_name
def test_extreme_scores(row):
    """One token takes all; and all tokens weigh the same."""
    need(row)
    case = Case((1,), (300,), heads=1, kv_heads=1, head_dim=32)
    data = case.arrays()
    values = data["values"][0][:, 0]
    data["queries"][0][:] = data["keys"][0].reshape(300, 32)[17] * 1000
    assert_same_bits(attend(row, case, data)[0][0], values[17], "one token")
    data["queries"][0][:] = 0
    assert_close(
        attend(row, case, data)[0][0],
        values.astype(np.float64).mean(0),
        2.0**-8 * abs(values).mean(0),
        "mean",
    )
