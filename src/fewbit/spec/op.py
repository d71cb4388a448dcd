"""The ops by name, and the axes on which their cells differ. A new op is a change of architecture: it starts here."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Op:
    """`scheme`: whether cells name one (of the weight, or of the key/value cache). `sizes`: the axes of its constraints."""

    name: str
    summary: str
    scheme: bool = False
    sizes: tuple[str, ...] = ()


OPS = {
    op.name: op
    for op in (
        Op("linear", "y[M,N] (+)= x[M,K] * W[N,K]^T + bias", True, ("n", "k")),
        Op("embedding", "rows of a packed weight, decoded", True, ("n", "k")),
        Op("pack", "canonical parts -> the bytes that kernels read", True, ("n", "k")),
        Op("rms_norm", "root-mean-square norm, with residual add", False, ("dim",)),
        Op("rope_angles", "cosines and sines of positions", False, ("half_dim",)),
        Op("rope", "rotary embedding in place", False, ("head_dim", "rotary_dim")),
        Op("kv_store", "keys and values into pages of the cache", True, ("head_dim",)),
        Op("swiglu", "silu(gate) * up", False, ("dim",)),
        Op("attention", "causal attention over the paged cache", True, ("head_dim",)),
        Op("gather_rows", "y[r] = x[index[r]]", False, ("dim",)),
        Op("sample", "temperature, top-k, top-p, min-p, logprobs", False, ("vocab",)),
    )
}
