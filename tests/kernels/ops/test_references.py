"""The references against independent arithmetic: torch where it has the op, loops where it has not."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fewbit.kernels.ops import attention, kv_page, kv_store, rms_norm, rope, rope_angles, sample, swiglu

RNG = np.random.default_rng(3)


def rows(count: int) -> np.ndarray:
    return np.array([count], np.int32)


def f32(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def test_rms_norm_adds_the_residual_first_and_leaves_other_rows() -> None:
    x, residual, weight, y = f32(5, 8), f32(5, 8), f32(8), np.full((5, 8), 7.0, np.float32)
    expected = torch.nn.functional.rms_norm(
        torch.from_numpy(x + residual), (8,), torch.from_numpy(weight), 1e-5
    )
    before = residual.copy()
    rms_norm.reference(x, weight, y, residual, rows(3), 1, 1e-5)
    np.testing.assert_allclose(y[:3], expected[:3], rtol=1e-5)
    np.testing.assert_array_equal(residual[:3], (x + before)[:3])
    np.testing.assert_array_equal(residual[3:], before[3:])
    assert (y[3:] == 7).all()


def test_rms_norm_of_heads_is_per_head() -> None:
    x, weight = f32(2, 12), f32(4)
    expected = torch.nn.functional.rms_norm(
        torch.from_numpy(x.reshape(2, 3, 4)), (4,), torch.from_numpy(weight), 1e-6
    )
    rms_norm.reference(x, weight, x, None, rows(2), 3, 1e-6)
    np.testing.assert_allclose(x.reshape(2, 3, 4), expected, rtol=1e-5)


def test_swiglu() -> None:
    gate_up, y = f32(3, 10), np.zeros((3, 5), np.float32)
    gate_up[0, 0] = -200.0  # exp overflows, silu is 0
    gate, up = torch.from_numpy(gate_up).split(5, dim=1)
    swiglu.reference(gate_up, y, rows(3), 1.0, 0.0, np.inf)
    np.testing.assert_allclose(y, torch.nn.functional.silu(gate) * up, rtol=1e-5, atol=1e-30)


def test_a_gate_with_limits() -> None:
    """As transformers has it for gpt-oss."""
    gate_up, y = 6 * f32(3, 10), np.zeros((3, 5), np.float32)
    gate, up = torch.from_numpy(gate_up).split(5, dim=1)
    swiglu.reference(gate_up, y, rows(3), 1.702, 1.0, 7.0)
    gate, up = gate.clamp(max=7.0), up.clamp(-7.0, 7.0)
    np.testing.assert_allclose(y, (up + 1) * gate * torch.sigmoid(1.702 * gate), rtol=1e-5, atol=1e-30)


def test_rope_turns_pairs_and_leaves_the_rest() -> None:
    x = f32(2, 2 * 6)
    before = x.reshape(2, 2, 6).copy()
    inv_freq, cos, sin = (
        np.array([1.0, 0.1], np.float32),
        np.zeros((2, 2), np.float32),
        np.zeros((2, 2), np.float32),
    )
    rope_angles.reference(np.array([3, 5], np.int32), inv_freq, cos, sin, rows(2), 2.0)
    np.testing.assert_allclose(cos, 2 * np.cos([[3, 0.3], [5, 0.5]]), rtol=1e-6)
    rope.reference(x, cos, sin, rows(2), 2, 6, 4)
    after = x.reshape(2, 2, 6)
    np.testing.assert_array_equal(after[..., 4:], before[..., 4:])
    for r, position in enumerate((3, 5)):
        for i, frequency in enumerate((1.0, 0.1)):
            turn = 2 * np.exp(1j * position * frequency)
            expected = (before[r, :, i] + 1j * before[r, :, i + 2]) * turn
            np.testing.assert_allclose(after[r, :, i] + 1j * after[r, :, i + 2], expected, rtol=1e-5)


def test_store_then_load_gives_back_rounded_rows_in_the_documented_order() -> None:
    heads, dim = 2, 4
    k, v = f32(3, heads * dim), f32(3, heads * dim)
    k_cache, v_cache = (np.zeros((3, 32 * heads * dim), np.uint16) for _ in range(2))
    slots = np.array([2 * 32 + 5, -1, 1 * 32 + 31], np.int32)
    kv_store.reference(k, v, k_cache, v_cache, slots, rows(3), heads, dim)
    assert np.count_nonzero(k_cache) == 2 * heads * dim  # the skipped row wrote nothing

    def bits(value: np.float32) -> int:
        return int(torch.tensor(float(value)).bfloat16().view(torch.uint16))

    for head in range(heads):
        for d in range(dim):
            at_k = head * 32 * dim + (d // 2) * 64 + 5 * 2 + d % 2  # [heads][dim/2][32][2]
            at_v = head * 32 * dim + (5 // 2) * dim * 2 + d * 2 + 5 % 2  # [heads][16][dim][2]
            assert k_cache[2, at_k] == bits(k[0, head * dim + d])
            assert v_cache[2, at_v] == bits(v[0, head * dim + d])


@pytest.mark.parametrize("window", [0, 3])
def test_attention_over_scattered_pages_equals_sdpa(window: int) -> None:
    heads, kv_heads, dim, tokens, new = 4, 2, 8, 70, 5
    q, k, v = f32(new, heads * dim), f32(kv_heads, tokens, dim), f32(kv_heads, tokens, dim)
    k_cache, v_cache = (np.zeros((6, 32 * kv_heads * dim), np.float32) for _ in range(2))
    pages = np.array([[4, 1, 3]], np.int32)
    slots = np.array([pages[0, t // 32] * 32 + t % 32 for t in range(tokens)], np.int32)
    split = kv_page.split_keys(k_cache, kv_heads, dim), kv_page.split_values(v_cache, kv_heads, dim)
    kv_page.store(*split, slots, k.transpose(1, 0, 2), v.transpose(1, 0, 2))
    out = np.zeros((new, heads * dim), np.float32)
    shape = {"heads": heads, "kv_heads": kv_heads, "head_dim": dim, "max_kv_len": 96}
    q_start, kv_len = np.array([0, new], np.int32), np.array([tokens], np.int32)
    attention.reference(
        q, k_cache, v_cache, pages, rows(1), q_start, kv_len, out, **shape, scale=0.3, window=window
    )

    position, token = torch.arange(tokens - new, tokens)[:, None], torch.arange(tokens)
    mask = (token <= position) & (token > position - (window or 1000))
    wide = [torch.from_numpy(part).repeat_interleave(2, dim=0) for part in (k, v)]
    queries = torch.from_numpy(q).reshape(new, heads, dim).transpose(0, 1)
    expected = torch.nn.functional.scaled_dot_product_attention(queries, *wide, attn_mask=mask, scale=0.3)
    np.testing.assert_allclose(out.reshape(new, heads, dim), expected.transpose(0, 1), rtol=2e-5, atol=1e-6)


def run_sample(logits: np.ndarray, **given: float) -> dict[str, np.ndarray]:
    many = len(logits)
    defaults = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "uniform": 0.0, "top_n": 3}
    args = {name: np.full(many, given.get(name, default)) for name, default in defaults.items()}
    out = {name: np.zeros(many) for name in ("ids", "logprob", "nan")}
    out |= {name: np.zeros((many, 20)) for name in ("top_ids", "top_logprobs")}
    sample.reference(logits, rows(many), **args, **out)
    return out


def test_greedy_takes_the_lowest_id_of_equals_and_raw_logprobs() -> None:
    logits = np.array([[1.0, 3.0, 3.0, 0.0]], np.float32)
    out = run_sample(logits, temperature=0.0)
    assert out["ids"][0] == 1 and list(out["top_ids"][0, :3]) == [1, 2, 0]
    expected = torch.log_softmax(torch.from_numpy(logits), -1)[0, 1]
    assert out["logprob"][0] == pytest.approx(float(expected), rel=1e-6)
    assert out["logprob"][0] == out["top_logprobs"][0, 0]


P = np.array([0.4, 0.3, 0.2, 0.1])


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({}, 4), ({"top_k": 2}, 2), ({"top_p": 0.5}, 2), ({"top_p": 0.39}, 1), ({"min_p": 0.6}, 2),
        ({"top_k": 3, "top_p": 0.75}, 2),  # over the three kept, 0.4 + 0.3 are 7/9
        ({"temperature": 1e-3}, 1),
    ],
)  # fmt: skip
def test_uniform_runs_through_the_kept_tokens_in_proportion(given: dict[str, float], kept: int) -> None:
    logits = np.log(P[[2, 0, 3, 1]]).astype(np.float32)[None]
    ranked = [1, 3, 0, 2]
    draws = [int(run_sample(logits, uniform=u, **given)["ids"][0]) for u in (np.arange(1000) + 0.5) / 1000]
    counts = np.array([draws.count(token) for token in ranked])
    assert (counts[kept:] == 0).all()
    np.testing.assert_allclose(counts[:kept] / 1000, P[:kept] / P[:kept].sum(), atol=2e-3)


def test_nan_is_flagged_in_its_row_only() -> None:
    out = run_sample(np.array([[0.0, np.nan], [0.0, 1.0]], np.float32), temperature=0.0)
    assert list(out["nan"]) == [1, 0] and out["ids"][1] == 1
