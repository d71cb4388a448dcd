"""Ops: what kernels compute. One file each: the contract as a symbolic expression, and the numpy reference that defines it.

Every op reads its live row count from a buffer (`rows`, one int32) when it runs; buffers have the capacity of the plan.
"""

from __future__ import annotations

from fewbit.kernels.ops import (
    attention,
    embedding,
    gather_rows,
    kv_store,
    linear,
    rms_norm,
    rope,
    rope_angles,
    sample,
    swiglu,
)

MODULES = {
    "linear": linear,
    "embedding": embedding,
    "rms_norm": rms_norm,
    "rope_angles": rope_angles,
    "rope": rope,
    "kv_store": kv_store,
    "swiglu": swiglu,
    "attention": attention,
    "gather_rows": gather_rows,
    "sample": sample,
}
CONTRACTS = {name: module.CONTRACT for name, module in MODULES.items()}
REFERENCES = {name: module.reference for name, module in MODULES.items()}
