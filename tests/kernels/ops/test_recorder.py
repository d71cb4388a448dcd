"""Recording: the row of each interval of M and of each phase, and the interval in which a plan holds."""

from __future__ import annotations

from typing import Any

import pytest

from fewbit.kernels.ops.contract import ContractError
from fewbit.kernels.ops.gate import SILU
from fewbit.kernels.ops.plan import Plan
from fewbit.kernels.ops.recorder import Ops
from fewbit.kernels.selector import Selector
from fewbit.layouts import layout, packed_bytes
from fewbit.platforms.known import known_platform
from fewbit.schemes import SCHEMES
from fewbit.spec.cell import M_MAX, Cell, Choice, Phase
from fewbit.spec.dtype import BF16, I32, U8
from fewbit.spec.layout import PackedTensor
from tests.kernels.ops.test_contract import buffer

HEADS = {"heads": 2, "kv_heads": 1, "head_dim": 64}


def record(platform: str, m: int, phase: Phase) -> Plan:
    """A linear and an attention over buffers of 32 rows."""
    selector = Selector(known_platform(platform))
    ops = Ops(selector, m, phase)
    choice = selector.ask(Cell("linear", "u4g32o", "f16", sizes=(("n", 64), ("k", 128))))
    assert isinstance(choice, Choice)
    there = layout(choice.layout, SCHEMES["u4g32o"])
    weight = PackedTensor(there, 64, 128, buffer(packed_bytes(there, 64, 128), dtype=U8))
    ops.linear(choice, buffer(32, 128), weight, buffer(32, 64), buffer(1, dtype=I32))
    cache = [buffer(4, 32 * 64, dtype=BF16) for _ in range(2)]
    table, seqs, q_start, kv_len = (buffer(*shape, dtype=I32) for shape in ((8, 2), (1,), (9,), (8,)))
    ops.attention(
        buffer(32, 128), *cache, table, seqs, q_start, kv_len, buffer(32, 128), **HEADS, scale=1.0, window=0
    )
    return ops.plan()


def linear(m: int, n: int = 64, **more: Any) -> Plan:
    """On AVX2, whose rows norm up to five rows of activations."""
    ops = Ops(Selector(known_platform("x86_avx2")), m)
    choice = ops.selector.ask(Cell("linear", "u4g32o", "f16", sizes=(("n", n), ("k", 128))))
    assert isinstance(choice, Choice)
    there = layout(choice.layout, SCHEMES["u4g32o"])
    weight = PackedTensor(there, n, 128, buffer(packed_bytes(there, n, 128), dtype=U8))
    y = buffer(32, n // 2 if "gate" in more else n)
    ops.linear(choice, buffer(32, 128), weight, y, buffer(1, dtype=I32), **more)
    return ops.plan()


def test_a_norm_holds_for_as_many_rows_as_the_kernel_norms() -> None:
    norm = (buffer(128), 1e-5)
    assert linear(5, norm=norm).m_range == (1, 5) and linear(5).m_range == (1, M_MAX)
    with pytest.raises(ContractError, match="linear_u4g32o_f32_n32k32_avx2 norms no 6 rows"):
        linear(6, norm=norm)


def test_a_gate_takes_whole_panels_and_does_not_add() -> None:
    assert linear(6, gate=SILU).m_range == (1, M_MAX)
    with pytest.raises(ContractError, match="got 96 rows, accumulate False"):
        linear(6, n=96, gate=SILU)
    with pytest.raises(ContractError, match="got 64 rows, accumulate True"):
        linear(6, gate=SILU, accumulate=True)


def names(plan: Plan) -> list[str]:
    return [step.row.name for step in plan.steps]


def test_one_interval_without_tiles() -> None:
    plan = record("x86_avx2", 1, "decode")
    assert names(plan) == ["linear_u4g32o_f32_n32k32_avx2", "attention_bf16_f32_paged32_avx2"]
    assert plan.m_range == (1, M_MAX)
    assert names(record("x86_avx2", 500, "prefill")) == names(plan)


def test_tiles_serve_from_their_first_m_and_attention_by_phase() -> None:
    decode = record("x86_amx", 1, "decode")
    assert names(decode) == ["linear_u4g32o_f32_n32k32_avx512", "attention_bf16_f32_paged32_avx512"]
    first = decode.m_range[1] + 1
    prefill = record("x86_amx", first, "prefill")
    assert names(prefill) == ["linear_u4g32o_bf16_n32k32_amx", "attention_bf16_bf16_paged32_amx"]
    tall = record("x86_amx", prefill.m_range[1] + 1, "prefill")
    assert names(tall)[0] == "linear_u4g32o_bf16w_n32k32_amx" and tall.m_range == (
        prefill.m_range[1] + 1,
        M_MAX,
    )
    assert names(record("x86_amx", first, "decode"))[1] == "attention_bf16_f32_paged32_avx512"


def test_a_plan_prints_its_kernels_and_sizes() -> None:
    text = str(record("x86_avx2", 1, "decode")).splitlines()
    assert (
        text[0]
        == "linear_u4g32o_f32_n32k32_avx2 accumulate=0, fold=1, input_kind=0, input_zero=0, rows_max=32, k=128, n=64"
    )
