"""The ops by name, and the axes on which their cells differ. A new op is a change of architecture: it starts here."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Op:
    """`scheme_of`: what the scheme of its cells describes; "" = they name none. `sizes`: the axes of its constraints."""

    name: str
    summary: str
    scheme_of: Literal["", "weight", "cache"] = ""
    sizes: tuple[str, ...] = ()


OPS = {
    op.name: op
    for op in (
        Op("linear", "y[M,N] (+)= x[M,K] * W[N,K]^T + bias", "weight", ("n", "k")),
        Op("embedding", "rows of a packed weight, decoded", "weight", ("n", "k")),
        Op("pack", "canonical parts -> the bytes that kernels read", "weight", ("n", "k")),
        Op("rms_norm", "root-mean-square norm, with residual add", "", ("dim",)),
        Op("rope_angles", "cosines and sines of positions", "", ("half_dim",)),
        Op("rope", "rotary embedding in place", "", ("head_dim", "rotary_dim")),
        Op("kv_store", "keys and values into pages of the cache", "cache", ("head_dim",)),
        Op("swiglu", "silu(gate) * up", "", ("dim",)),
        Op("attention", "causal attention over the paged cache", "cache", ("head_dim",)),
        Op("gather_rows", "y[r] = x[index[r]]", "", ("dim",)),
        Op("sample", "temperature, top-k, top-p, min-p, logprobs", "", ("vocab",)),
    )
}
