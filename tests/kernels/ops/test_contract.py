"""Contracts: shapes are checked by one symbolic expression, and the error names what was expected and found."""

from __future__ import annotations

import numpy as np
import pytest

from fewbit.kernels import storage
from fewbit.kernels.ops import CONTRACTS, REFERENCES
from fewbit.kernels.ops.contract import ContractError, evaluate, parse
from fewbit.kernels.ops.gate import SILU
from fewbit.registry.select import select
from fewbit.spec.buffer import Buffer
from fewbit.spec.cell import Cell, Choice, Platform
from fewbit.spec.dtype import F32, I32, DType
from fewbit.spec.op import OPS


def buffer(*shape: int, dtype: DType = F32) -> Buffer:
    return storage.wrap(np.zeros(storage.byte_count(shape, dtype), np.uint8), shape, dtype)


def swiglu_args(**changes: object) -> dict[str, object]:
    return {
        "gate_up": buffer(4, 12),
        "y": buffer(4, 6),
        "rows": buffer(1, dtype=I32),
        **SILU.numbers(),
    } | changes


def test_every_op_but_pack_has_contract_and_reference() -> None:
    assert set(CONTRACTS) == set(REFERENCES) == set(OPS) - {"pack"}


def test_sizes_are_bound() -> None:
    assert CONTRACTS["swiglu"].check(swiglu_args()) == {"rows_max": 4, "dim": 6}


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"gate_up": buffer(4, 13)}, "gate_up must be f32[rows_max, 2*dim] = [4, 12], got f32[4, 13]"),
        ({"y": buffer(3, 6)}, "y must be f32[rows_max, dim] = [4, 6], got f32[3, 6]"),
        ({"rows": buffer(1)}, "rows must be i32[1] = [1], got f32[1]"),
        ({"y": None}, "y must be f32[rows_max, dim]"),
    ],
)
def test_wrong_shapes_are_named(changes: dict[str, object], text: str) -> None:
    with pytest.raises(ContractError) as error:
        CONTRACTS["swiglu"].check(swiglu_args(**changes))
    assert text in str(error.value)


def test_unknown_argument_is_named() -> None:
    with pytest.raises(ContractError, match="takes gate_up, y, rows, alpha, shift, limit; got"):
        CONTRACTS["swiglu"].check(swiglu_args(bias=None))


def test_columns_must_be_contiguous() -> None:
    y = buffer(4, 6)
    crossed = Buffer(F32, (4, 6), (1, 4), y.handle)
    with pytest.raises(ContractError, match="y must be"):
        CONTRACTS["swiglu"].check(swiglu_args(y=crossed))


def test_optional_argument_may_be_absent() -> None:
    contract = parse("example", "x:f32[m,k] bias:f32[k]?")
    assert contract.check({"x": buffer(2, 3), "bias": None}) == {"m": 2, "k": 3}
    with pytest.raises(ContractError, match=r"bias must be f32\[k\] = \[3\], got f32\[4\]"):
        contract.check({"x": buffer(2, 3), "bias": buffer(4)})


def test_extents_are_expressions() -> None:
    assert evaluate("32*kv_heads*head_dim", {"kv_heads": 2, "head_dim": 8}) == 512
    assert evaluate("rotary_dim/2", {"rotary_dim": 8}) == 4
    assert evaluate("max_seqs+1", {"max_seqs": 7}) == 8


@pytest.mark.parametrize("op", sorted(CONTRACTS))
def test_reference_rows_serve_only_on_request(op: str) -> None:
    nothing = Platform("none", frozenset())
    scheme = {"": "", "weight": "u4g32o", "cache": "bf16"}[OPS[op].scheme_of]
    asked = select(Cell(op, scheme, backend="reference"), nothing)
    assert isinstance(asked, Choice) and asked.rows[0][2].backend == "reference"
    other = select(Cell(op, scheme), nothing)
    assert not isinstance(other, Choice) or all(row.backend == "cpu" for _, _, row in other.rows)
