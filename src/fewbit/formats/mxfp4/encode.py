"""Canonical experts as gpt-oss stores them: the exact inverse of `resolve`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fewbit.formats.folder.packing import pack_bits
from fewbit.formats.folder.writer import DiskArray
from fewbit.formats.mxfp4.resolve import MXFP4
from fewbit.schemes.arrays import Array
from fewbit.spec.scheme import QuantTensor


def encode(
    gates: Sequence[QuantTensor], ups: Sequence[QuantTensor], downs: Sequence[QuantTensor]
) -> dict[str, DiskArray]:
    """Blocks and scales of all experts by leaf, one gate, up and down for each expert."""
    for tensor in (*gates, *ups, *downs):
        if tensor.scheme != MXFP4:
            raise ValueError(f"MXFP4 folders cannot express the scheme {tensor.scheme}")
    both = {
        role: np.stack([interleave(g.parts[role], u.parts[role]) for g, u in zip(gates, ups)])
        for role in ("codes", "scale")
    }
    down = {role: np.stack([d.parts[role] for d in downs]) for role in ("codes", "scale")}
    leaves: dict[str, DiskArray] = {}
    for stack, parts in (("gate_up_proj", both), ("down_proj", down)):
        blocks = pack_bits(parts["codes"], 4, np.uint8)
        leaves[f"{stack}_blocks"] = DiskArray("U8", blocks.reshape(*blocks.shape[:2], -1, 16))
        leaves[f"{stack}_scales"] = DiskArray("U8", parts["scale"])
    return leaves


def interleave(gate: Array, up: Array) -> Array:
    """[2 N, ...]: a row of the gate, a row of up, and so on."""
    return np.stack([gate, up], axis=1).reshape(2 * len(gate), *gate.shape[1:])


def config_of(**more: object) -> dict[str, object]:
    skipped = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    return {"quant_method": "mxfp4", "modules_to_not_convert": skipped, **more}
