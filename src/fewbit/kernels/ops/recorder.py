"""Ops: what a model calls to write its step down. Each method is one op; shapes are checked here, once, by the contract."""

from __future__ import annotations

from typing import Any

from fewbit.kernels.ops import CONTRACTS
from fewbit.kernels.ops.contract import ContractError
from fewbit.kernels.ops.gate import SILU, Gate
from fewbit.kernels.ops.input_codes import UNSAID, InputCodes
from fewbit.kernels.ops.plan import Plan, Step
from fewbit.kernels.selector import Selector
from fewbit.spec.buffer import Buffer
from fewbit.spec.cell import M_MAX, Choice, Phase
from fewbit.spec.layout import PackedTensor
from fewbit.spec.op import OPS


class Ops:
    """Records for `m` rows of activations; the plan holds for the interval in which all its kernels stay the chosen ones.

    `phase` is what attention sees: decode when every sequence has one row.
    """

    def __init__(self, selector: Selector, m: int, phase: Phase = "any") -> None:
        self.selector, self.m, self.phase = selector, m, phase
        self._steps: list[Step] = []
        self._low, self._high = 1, M_MAX

    def plan(self) -> Plan:
        return Plan(tuple(self._steps), (self._low, self._high))

    def linear(
        self,
        choice: Choice,
        x: Buffer,
        weight: PackedTensor,
        y: Buffer,
        rows: Buffer,
        *,
        bias: Buffer | None = None,
        norm: tuple[Buffer, float] | None = None,
        inputs: InputCodes = UNSAID,
        accumulate: bool = False,
        gate: Gate | None = None,
        overlap: bool = False,
    ) -> None:
        """With `gate`, y takes what the gate makes of the two halves of the weight's rows. `norm`, weight and eps of the norm that x
        goes through first, is for a choice that `norms`."""
        if norm and not self.norms(choice):
            raise ContractError(f"linear: {choice.row_for(self.m).name} norms no {self.m} rows")
        if gate and (accumulate or weight.n % (2 * weight.layout.panel_n)):
            raise ContractError(
                f"linear: a gate takes whole panels of {weight.layout.panel_n} rows twice, and does not add to y; got "
                f"{weight.n} rows, accumulate {accumulate}"
            )
        vector, eps = norm or (None, 0.0)
        args = {"x": x, "weight": weight, "bias": bias, "norm": vector, "eps": eps, "y": y, "rows": rows}
        args["accumulate"] = int(accumulate)
        args |= {"fold": 2 if gate else 1, **(gate or SILU).numbers(), **inputs.numbers()}
        self._record("linear", args, choice=choice, overlap=overlap)

    def norms(self, choice: Choice) -> bool:
        """Whether the row chosen for a linear norms its activations itself; the plan then holds as long as that stays so."""
        most = choice.row_for(self.m).norm_rows
        if self.m <= most:
            self._high = min(self._high, most)
        elif most:
            self._low = max(self._low, most + 1)
        return self.m <= most

    def embedding(self, ids: Buffer, weight: PackedTensor, y: Buffer, rows: Buffer) -> None:
        scheme, layout = weight.layout.scheme.name, weight.layout.name
        self._record("embedding", {"ids": ids, "weight": weight, "y": y, "rows": rows}, scheme, layout)

    def rms_norm(
        self,
        x: Buffer,
        weight: Buffer,
        y: Buffer,
        rows: Buffer,
        *,
        eps: float,
        rows_per: int = 1,
        residual: Buffer | None = None,
        overlap: bool = False,
    ) -> None:
        args = {
            "x": x,
            "weight": weight,
            "y": y,
            "residual": residual,
            "rows": rows,
            "rows_per": rows_per,
            "eps": eps,
        }
        self._record("rms_norm", args, overlap=overlap)

    def rope_angles(
        self, positions: Buffer, inv_freq: Buffer, cos: Buffer, sin: Buffer, rows: Buffer, *, scale: float
    ) -> None:
        args = {
            "positions": positions,
            "inv_freq": inv_freq,
            "cos": cos,
            "sin": sin,
            "rows": rows,
            "scale": scale,
        }
        self._record("rope_angles", args)

    def rope(
        self, x: Buffer, cos: Buffer, sin: Buffer, rows: Buffer, *, heads: int, head_dim: int, rotary_dim: int
    ) -> None:
        args = {"x": x, "cos": cos, "sin": sin, "rows": rows}
        self._record("rope", args | {"heads": heads, "head_dim": head_dim, "rotary_dim": rotary_dim})

    def kv_store(
        self,
        k: Buffer,
        v: Buffer,
        k_cache: Buffer,
        v_cache: Buffer,
        slots: Buffer,
        rows: Buffer,
        *,
        kv_heads: int,
        head_dim: int,
    ) -> None:
        args = {"k": k, "v": v, "k_cache": k_cache, "v_cache": v_cache, "slots": slots, "rows": rows}
        self._record("kv_store", args | {"kv_heads": kv_heads, "head_dim": head_dim}, k_cache.dtype.name)

    def swiglu(self, gate_up: Buffer, y: Buffer, rows: Buffer, gate: Gate) -> None:
        self._record("swiglu", {"gate_up": gate_up, "y": y, "rows": rows, **gate.numbers()})

    def attention(
        self,
        q: Buffer,
        k_cache: Buffer,
        v_cache: Buffer,
        page_table: Buffer,
        seqs: Buffer,
        q_start: Buffer,
        kv_len: Buffer,
        out: Buffer,
        *,
        heads: int,
        kv_heads: int,
        head_dim: int,
        scale: float,
        window: int,
    ) -> None:
        args = {"q": q, "k_cache": k_cache, "v_cache": v_cache, "page_table": page_table, "seqs": seqs}
        args |= {"q_start": q_start, "kv_len": kv_len, "out": out}
        numbers = {
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": head_dim,
            "scale": scale,
            "window": window,
        }
        numbers["max_kv_len"] = page_table.shape[1] * 32
        self._record("attention", args | numbers, k_cache.dtype.name)

    def gather_rows(self, x: Buffer, index: Buffer, y: Buffer, rows: Buffer) -> None:
        self._record("gather_rows", {"x": x, "index": index, "y": y, "rows": rows})

    def sample(self, **args: Buffer) -> None:
        """Arguments as in ops/sample.py."""
        self._record("sample", args)

    def _record(
        self,
        op: str,
        args: dict[str, Any],
        scheme: str = "",
        layout: str = "",
        *,
        choice: Choice | None = None,
        overlap: bool = False,
    ) -> None:
        sizes = CONTRACTS[op].check(args)
        if choice is None:
            asked = tuple((axis, sizes[axis]) for axis in OPS[op].sizes)
            choice = self.selector.choose(
                op, scheme, asked, layout, self.phase if op == "attention" else "any"
            )
        low, high, row = next(interval for interval in choice.rows if interval[0] <= self.m <= interval[1])
        self._low, self._high = max(self._low, low), min(self._high, high)
        self._steps.append(Step(op, row, args, sizes, overlap))
