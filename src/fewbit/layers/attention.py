"""Self-attention with grouped key/value heads over the paged cache, added to the residual stream."""

from __future__ import annotations

from dataclasses import dataclass

from fewbit.kernels.ops.recorder import Ops
from fewbit.layers.inputs import Cache, StepInputs
from fewbit.layers.linear import Linear
from fewbit.layers.norm import RmsNorm
from fewbit.spec.buffer import Buffer


@dataclass(frozen=True, slots=True)
class AttentionShape:
    """`rotary_dim` elements of each head are rotated; `window` tokens are seen, 0 = all."""

    heads: int
    kv_heads: int
    head_dim: int
    rotary_dim: int
    window: int = 0

    @property
    def qkv_width(self) -> int:
        return (self.heads + 2 * self.kv_heads) * self.head_dim


@dataclass(frozen=True, slots=True)
class Attention:
    shape: AttentionShape
    qkv: Linear
    o: Linear
    q_norm: RmsNorm | None = None
    k_norm: RmsNorm | None = None

    def record(
        self,
        ops: Ops,
        norm: RmsNorm,
        normed: Buffer,
        residual: Buffer,
        inputs: StepInputs,
        cache: Cache,
        cos: Buffer,
        sin: Buffer,
        qkv: Buffer,
        mixed: Buffer,
    ) -> None:
        """Of norm(residual). `normed` [T, D], `qkv` [T, qkv_width] and `mixed` [T, heads * head_dim] are working buffers."""
        s, rows = self.shape, inputs.rows
        q_end, k_end = s.heads * s.head_dim, (s.heads + s.kv_heads) * s.head_dim
        q, k, v = qkv.columns(0, q_end), qkv.columns(q_end, k_end), qkv.columns(k_end, s.qkv_width)
        heads = {"kv_heads": s.kv_heads, "head_dim": s.head_dim}

        self.qkv.record_normed(ops, norm, residual, normed, qkv, rows)
        if self.q_norm and self.k_norm:
            self.q_norm.record_heads(ops, q, rows, s.heads, overlap=True)
            self.k_norm.record_heads(ops, k, rows, s.kv_heads)
        # queries and keys are neighbours, so one op turns both
        ops.rope(
            qkv.columns(0, k_end),
            cos,
            sin,
            rows,
            heads=s.heads + s.kv_heads,
            head_dim=s.head_dim,
            rotary_dim=s.rotary_dim,
        )
        ops.kv_store(k, v, cache.keys, cache.values, inputs.slots, rows, **heads)
        ops.attention(
            q,
            cache.keys,
            cache.values,
            inputs.page_table,
            inputs.seqs,
            inputs.q_start,
            inputs.kv_len,
            mixed,
            heads=s.heads,
            scale=s.head_dim**-0.5,
            window=s.window,
            **heads,
        )
        self.o.record(ops, mixed, residual, rows, accumulate=True)
