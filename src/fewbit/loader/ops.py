"""The ops of a step that have no weights: their kernels are chosen when a step is recorded, and asked for before loading."""

from __future__ import annotations

from fewbit.kernels.selector import Selector
from fewbit.models.interface import ModelShape
from fewbit.spec.cell import KernelRow
from fewbit.spec.op import OPS

CACHE = "bf16"  # scheme of the key/value cache
BETWEEN = ("rms_norm", "rope_angles", "rope", "kv_store", "swiglu", "gather_rows", "sample")


def check_ops(shape: ModelShape, selector: Selector) -> None:
    """RefusedError where an op has no kernel: before weights are read, not in the first step."""
    for head_dim in {dim for _, dim in shape.kv_shapes}:
        for phase in ("decode", "prefill"):
            selector.choose("attention", CACHE, (("head_dim", head_dim),), phase=phase)
        for op in BETWEEN:
            choose_between(op, head_dim, selector)


def choose_between(op: str, head_dim: int, selector: Selector, m: int = 1) -> KernelRow:
    """The kernel for steps of `m` rows."""
    sizes = (("head_dim", head_dim),) if "head_dim" in OPS[op].sizes else ()
    return selector.choose(op, CACHE if OPS[op].scheme_of == "cache" else "", sizes).row_for(m)
