"""What is stored of activations: scales of a layer's inputs, and of the cache."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fewbit.formats.compressed_tensors.config import Args
from fewbit.formats.compressed_tensors.scales import FLOATS
from fewbit.formats.folder.parts import Shared
from fewbit.formats.folder.resolve import Auxiliary, Claim, Explained, Module
from fewbit.formats.folder.scales import Reciprocal
from fewbit.spec.dtype import E2M1, E4M3, E8M0, F32, dtype
from fewbit.spec.granularity import TENSOR, TOKEN, group
from fewbit.spec.layer_quant import InputQuant

LEAVES = ("input_scale", "input_zero_point", "input_global_scale")


def input_quant(module: Module, args: Args | None, rule: str) -> tuple[InputQuant | None, list[Claim]]:
    """How inputs were quantized, and the claims of the tensors that say so."""
    if args is None:
        unused = (_unused(module, leaf, "only weights are quantized") for leaf in LEAVES)
        return None, [claim for claim in unused if claim]
    used: dict[str, Any] = {}
    claims: list[Claim | None] = []
    if args.strategy == "tensor_group":
        tensor = module.need("input_global_scale", rule, "F32", shape=(1,))
        used["global_scale"] = f"{module.name}.input_global_scale"
        claims.append(Auxiliary(used["global_scale"], F32, (1,), Reciprocal(tensor)))
    elif not args.dynamic:
        for field, kinds in (("scale", FLOATS), ("zero_point", ("I8",))):
            if field == "scale" or not args.symmetric:
                module.need(f"input_{field}", rule, *kinds)
                used[field] = f"{module.name}.input_{field}"
                claims.append(_one(module, f"input_{field}", used[field], kinds))
    why = "inputs are quantized with scales of their own, or without a zero point"
    claims += [_unused(module, leaf, why) for leaf in LEAVES if leaf.removeprefix("input_") not in used]
    codes = (E4M3 if args.bits == 8 else E2M1) if args.is_float else dtype(f"i{args.bits}")
    grain = group(args.group_size) if args.group_size else TENSOR if args.strategy == "tensor" else TOKEN
    micro = E8M0 if args.is_float and args.group_size == 32 else None
    micro = E4M3 if args.strategy == "tensor_group" else micro
    if not args.is_float and args.dynamic:
        used |= {"symmetric": args.symmetric, "levels": (2**args.bits - 1) / 2}
    return InputQuant(codes, grain, scale_dtype=micro, **used), [claim for claim in claims if claim]


def cache_scales(module: Module) -> Iterator[Auxiliary]:
    """`k_scale` and `v_scale` of an attention, or `output_scale` of its k_proj and v_proj."""
    for leaf in ("k_scale", "v_scale"):
        if leaf in module.leaves:
            yield _one(module, leaf, f"{module.name}.{leaf}")
    parent, _, last = module.name.rpartition(".")
    if "output_scale" in module.leaves and last in ("k_proj", "v_proj"):
        yield _one(module, "output_scale", f"{parent}.{last[0]}_scale")


def _one(module: Module, leaf: str, name: str, kinds: tuple[str, ...] = FLOATS) -> Auxiliary:
    tensor = module.leaves[leaf]
    if tensor.shape not in ((), (1,), (1, 1)) or tensor.kind not in kinds:
        module.wrong(tensor, f"one number of type {' or '.join(kinds)}")
    return Auxiliary(name, tensor.dtype, (1,), Shared(tensor, (1,)))


def _unused(module: Module, leaf: str, why: str) -> Explained | None:
    return Explained(module.leaves[leaf], why) if leaf in module.leaves else None
