"""Experts stacked in one tensor, as transformers holds them, taken apart before a format sees them.

<holder>.gate_up_proj  [E, 2 I, H]     rows of the gate, then those of up; in gpt-oss gate and up in turn
<holder>.down_proj     [E, H, I]       Llama 4 and gpt-oss store both transposed: [E, H, 2 I] and [E, I, H]

What belongs to them is named <stack>_<leaf> or <stack>.<leaf>: scales [E, ...], or one for all experts. A format then finds
the modules <holder>.<expert>.gate_proj, up_proj and down_proj with its own leaves. Packing along K changes nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NoReturn

from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.views import rows_of
from fewbit.spec.refusal import CheckpointError

STACKS = {
    "gate_up_proj": ("gate_proj", "up_proj"),
    **{s: (s,) for s in ("down_proj", "gate_proj", "up_proj")},
}
LEAVES = {
    "": "weight", "weight": "weight", "bias": "bias", "packed": "weight_packed", "scale": "weight_scale",
    "scale_inv": "weight_scale_inv", "global_scale": "weight_global_scale", "activation_scale": "input_scale",
    **{leaf: leaf for leaf in (
        "weight_packed", "weight_scale", "weight_scale_2", "weight_scale_inv", "weight_global_scale", "input_scale",
        "input_global_scale", "pre_quant_scale",
    )},
}  # fmt: skip
CODES = ("weight", "weight_packed")
OF_INPUTS = ("input_scale", "input_global_scale", "pre_quant_scale")
TRANSPOSED = ("llama4", "llama4_text", "gpt_oss")
INTERLEAVED = ("gpt_oss",)


@dataclass(frozen=True, slots=True)
class Unstacked:
    """Tensors by the names that formats expect, and for each module taken out of a stack that stack's stored name."""

    tensors: Mapping[str, DiskTensor]
    stack_of: Mapping[str, str]


def unstack(disk: Mapping[str, DiskTensor], config: Mapping[str, Any]) -> Unstacked:
    tensors, stack_of = dict(disk), dict[str, str]()
    for stack, leaves in _stacks(disk).items():
        for module, leaf, tensor in _experts(stack, leaves, disk, config):
            stack_of[module] = stack
            if tensors.setdefault(f"{module}.{leaf}", tensor) is not tensor:
                _wrong(tensor, f"no tensor '{module}.{leaf}' beside the stack that holds it")
        for tensor in leaves.values():
            del tensors[tensor.name]
    return Unstacked(tensors, stack_of)


def _stacks(disk: Mapping[str, DiskTensor]) -> dict[str, dict[str, DiskTensor]]:
    """The leaves of each stack by its stored name; a stack has codes or weights of three dimensions."""
    found: dict[str, dict[str, DiskTensor]] = {}
    for name, tensor in disk.items():
        holder, mark, tail = name.rpartition("experts.")
        stack = next((s for s in STACKS if tail.startswith(s)), "")
        rest = tail.removeprefix(stack)
        leaf = LEAVES.get(rest[1:] if rest[:1] in ("_", ".") else rest)
        if mark and stack and leaf and rest[:1] in ("", "_", "."):
            leaves = found.setdefault(f"{holder}{mark}{stack}", {})
            if leaf in leaves:
                _wrong(tensor, f"it once, but it is also {leaves[leaf]}")
            leaves[leaf] = tensor
    return {s: leaves for s, leaves in found.items() if any(len(_codes(leaves, c)) == 3 for c in CODES)}


def _codes(leaves: Mapping[str, DiskTensor], leaf: str) -> tuple[int, ...]:
    return leaves[leaf].shape if leaf in leaves else ()


def _experts(
    stack: str, leaves: Mapping[str, DiskTensor], disk: Mapping[str, DiskTensor], config: Mapping[str, Any]
) -> Iterator[tuple[str, str, DiskTensor]]:
    """(module, leaf, tensor) of every expert."""
    holder, _, name = stack.rpartition(".")
    codes = next(leaves[leaf] for leaf in CODES if leaf in leaves)
    projections, count = STACKS[name], codes.shape[0]
    transposed = _is_transposed(holder, codes, disk, config)
    interleaved = len(projections) == 2 and config.get("model_type") in INTERLEAVED
    for leaf, tensor in leaves.items():
        shared = leaf == "pre_quant_scale" and len(tensor.shape) == 1
        if tensor.shape not in ((), (1,)) and not shared and tensor.shape[0] != count:
            _wrong(tensor, f"{count} experts, as {codes} has")
        for expert in range(count):
            own = tensor if shared or tensor.shape in ((), (1,)) else tensor.at(expert)
            for at, projection in enumerate(projections):
                parts = 1 if leaf in OF_INPUTS else len(projections)
                part = _part(own, at, parts, codes.shape[2 if transposed else 1], interleaved, transposed)
                yield f"{holder}.{expert}.{projection}", leaf, part


def _part(own: DiskTensor, at: int, parts: int, of: int, interleaved: bool, transposed: bool) -> DiskTensor:
    """The rows of one projection out of `parts`, where the weights have `of` rows; a single number belongs to all."""
    if own.shape in ((), (1,), (1, 1)):
        return own if own.shape else replace(own, shape=(1,))
    turned = transposed and len(own.shape) == 2
    rows = own.shape[1 if turned else 0]
    if parts == 1:
        return rows_of(own, 0, rows, 1, turned)
    if rows % 2:
        _wrong(own, f"an even number of rows, the gate's and up's, but it has {rows}")
    if interleaved and rows not in (2, of):
        _wrong(own, f"{of} rows, the gate's and up's in turn, or one for each of the two")
    return (
        rows_of(own, at, rows // 2, 2, turned)
        if interleaved
        else rows_of(own, at * (rows // 2), rows // 2, 1, turned)
    )


def _is_transposed(
    holder: str, codes: DiskTensor, disk: Mapping[str, DiskTensor], config: Mapping[str, Any]
) -> bool:
    """As the model type has it, unless the rows of down_proj say otherwise: they are never packed, and `hidden_size` many."""
    usual, hidden = config.get("model_type") in TRANSPOSED, config.get("hidden_size")
    names = (
        f"{holder}.down_proj{end}"
        for end in ("", "_weight", ".weight", "_packed", ".weight_packed", "_weight_packed")
    )
    down = next((disk[name] for name in names if name in disk), None)
    if down is None or len(down.shape) != 3 or not isinstance(hidden, int):
        return usual
    fits = {False: down.shape[1] == hidden, True: down.shape[2] == hidden}
    if not any(fits.values()):
        _wrong(down, f"experts of {hidden} rows (or columns), which is hidden_size")
    return usual if fits[usual] else not usual


def _wrong(tensor: DiskTensor, expected: str) -> NoReturn:
    raise CheckpointError(
        f"{tensor.file.path}: tensor {tensor}, expected {expected}; the checkpoint is broken or of a layout that is not supported"
    )
