"""Tensor names of a GGUF to canonical (Hugging Face) names, per architecture."""

from __future__ import annotations

import re
from collections.abc import Mapping

from fewbit.formats.gguf.container import DiskTensor
from fewbit.formats.gguf.keys import Architecture
from fewbit.spec.refusal import CheckpointError

ROPE_FACTORS = (
    "rope_freqs.weight"  # not a weight: divisors of the rotary frequencies, which become config keys
)

_OUTER = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_PROJECTIONS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_STACKED = {
    "ffn_gate_exps": "mlp.experts.{}.gate_proj",
    "ffn_up_exps": "mlp.experts.{}.up_proj",
    "ffn_down_exps": "mlp.experts.{}.down_proj",
}
_NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
_HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}

_LAYER = re.compile(r"blk\.(0|[1-9][0-9]{0,5})\.([a-z_]+)\.(weight|bias)")


def canonical_name(disk_name: str, architecture: Architecture, layers: int) -> str | None:
    """None when the architecture has no such tensor. The name of stacked experts has `{}` for the number of each."""
    if disk_name in _OUTER:
        return _OUTER[disk_name]
    match = _LAYER.fullmatch(disk_name)
    if not match or int(match[1]) >= layers:
        return None
    layer, part, role = match.groups()
    projections = {**_PROJECTIONS, **_STACKED} if architecture.experts else _PROJECTIONS
    if architecture.experts and part in ("ffn_gate", "ffn_up", "ffn_down"):
        return None
    own = architecture.names.get(f"{part}.{role}")
    if own is not None:
        return f"model.layers.{layer}.{own}"
    if role == "bias":
        target = projections.get(part) if part in architecture.biases else None
    else:
        target = projections.get(part) or _NORMS.get(part)
        if target is None and architecture.qk_norm:
            target = _HEAD_NORMS.get(part)
    return None if target is None else f"model.layers.{layer}.{target}.{role}"


def by_canonical_name(
    tensors: Mapping[str, DiskTensor], architecture: Architecture, layers: int, experts: int, where: str
) -> dict[str, DiskTensor]:
    """Every tensor is mapped or refused by name, none is dropped; stacked experts become one tensor each."""
    found: dict[str, DiskTensor] = {}
    for disk_name, tensor in tensors.items():
        if disk_name == ROPE_FACTORS:
            continue
        name = canonical_name(disk_name, architecture, layers)
        if name is None:
            raise CheckpointError(
                f"{where}: tensor {disk_name!r} has no place in a {architecture.name!r} model of {layers} layers; "
                "the model is a variant that is not supported, or the file is wrong"
            )
        if "{}" in name:
            dims = 3 if name.endswith("weight") else 2
            if len(tensor.shape) != dims or tensor.shape[0] != experts:
                raise CheckpointError(
                    f"{where}: tensor {disk_name!r} has the shape {list(tensor.shape)}, expected {dims} dimensions of which the "
                    f"first is the number of experts, {experts}; the file is wrong"
                )
        members = {name.format(i): tensor.at(i) for i in range(experts)} if "{}" in name else {name: tensor}
        for member, part in members.items():
            if member in found:
                raise CheckpointError(
                    f"{where}: tensors {found[member].name!r} and {disk_name!r} are both {member!r}; the file is wrong"
                )
            found[member] = part
    return found


def disk_names(architecture: Architecture, layers: int) -> dict[str, str]:
    """Canonical names to those of the file; stacked experts by the name with `{}`."""
    parts = {**_PROJECTIONS, **_STACKED, **_NORMS, **_HEAD_NORMS}
    named = [f"{part}.{role}" for part in parts for role in ("weight", "bias")] + list(architecture.names)
    disk = [*_OUTER, *(f"blk.{layer}.{name}" for layer in range(layers) for name in named)]
    found = {canonical_name(name, architecture, layers): name for name in disk}
    return {name: disk_name for name, disk_name in found.items() if name is not None}
