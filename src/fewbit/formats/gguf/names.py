"""Tensor names of a GGUF to canonical (Hugging Face) names, per architecture."""

from __future__ import annotations

import re
from collections.abc import Iterable

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
_NORMS = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm"}
_HEAD_NORMS = {"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm"}

_LAYER = re.compile(r"blk\.(0|[1-9][0-9]{0,5})\.([a-z_]+)\.(weight|bias)")


def canonical_name(disk_name: str, architecture: Architecture, layers: int) -> str | None:
    """None when the architecture has no such tensor."""
    if disk_name in _OUTER:
        return _OUTER[disk_name]
    match = _LAYER.fullmatch(disk_name)
    if not match or int(match[1]) >= layers:
        return None
    layer, part, role = match.groups()
    if role == "bias":
        target = _PROJECTIONS.get(part) if part in architecture.biases else None
    else:
        target = _PROJECTIONS.get(part) or _NORMS.get(part)
        if target is None and architecture.qk_norm:
            target = _HEAD_NORMS.get(part)
    return None if target is None else f"model.layers.{layer}.{target}.{role}"


def canonical_names(
    disk_names: Iterable[str], architecture: Architecture, layers: int, where: str
) -> dict[str, str]:
    """Canonical name to disk name. Every tensor is mapped or refused by name; none is dropped."""
    names: dict[str, str] = {}
    for disk_name in disk_names:
        if disk_name == ROPE_FACTORS:
            continue
        name = canonical_name(disk_name, architecture, layers)
        if name is None:
            raise CheckpointError(
                f"{where}: tensor {disk_name!r} has no place in a {architecture.name!r} model of {layers} layers; "
                "the model is a variant that is not supported, or the file is wrong"
            )
        names[name] = disk_name
    return names
