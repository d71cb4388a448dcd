"""Weights stored without their zeros (older files): a bitmask of those that are kept, and these in a row.

sparse-24-bitmask  compressed [N, K / 2], two of four kept     sparse-bitmask  compressed [kept], row_offsets i64 [N]
bitmask u8 [N, ceil(K / 8)], the low bit first; shape i64, N and K; with FP8 codes also weight_scale
"""

from __future__ import annotations

from collections.abc import Iterator

from fewbit.formats.compressed_tensors.activations import input_quant
from fewbit.formats.compressed_tensors.config import Group
from fewbit.formats.compressed_tensors.decode import Kept, Mask
from fewbit.formats.compressed_tensors.scales import FLOATS, granularity_of, scale_part
from fewbit.formats.folder.parts import Part
from fewbit.formats.folder.resolve import Claim, Explained, Module, Resolved
from fewbit.spec.dtype import DType
from fewbit.spec.granularity import NONE
from fewbit.spec.layer_quant import LayerQuant
from fewbit.spec.scheme import Scheme

SPARSE_LEAVES = ("compressed", "bitmask", "shape", "row_offsets")


def read_sparse(module: Module, group: Group | None, stored: str) -> Iterator[Claim]:
    rule = f"sparsity_config ({stored})"
    stated = module.need("shape", rule, "I64", "I32")
    extents = [int(extent) for extent in stated.whole().reshape(-1)]
    if len(extents) != 2 or not all(0 < extent < 1 << 31 for extent in extents):
        module.wrong(stated, f"two extents above 0, not {extents[:8]}")
    n, k = extents
    bitmask = module.need("bitmask", rule, "U8", shape=(n, -(-k // 8)))
    mask = Mask(bitmask, k)
    args = group.weights if group is not None else None
    kinds = FLOATS if args is None else ("F8_E4M3",) if args.is_float else ("I8",)
    if stored == "sparse-24-bitmask":
        kept = Kept(module.need("compressed", rule, *kinds, shape=(n, k // 2)), mask)
    else:
        values = module.need("compressed", rule, *kinds)
        if len(values.shape) != 1:
            module.wrong(values, "one run of the kept weights")
        kept = Kept(values, mask, module.need("row_offsets", rule, "I64", shape=(n,)))
    parts: dict[str, Part] = {"codes": kept, "mask": mask}
    granularity, layer = NONE, LayerQuant()
    scale_type: DType | None = None
    if args is not None and group is not None:
        if args.bits != 8 or not args.symmetric:
            module.fail(
                f"is sparse with {args.bits} bits or a zero point ({rule}), expected symmetric 8 bits"
            )
        granularity = granularity_of(module, args, n, k)
        scale = module.need("weight_scale", rule, *FLOATS)
        parts["scale"] = scale_part(module, scale, granularity, n, k)
        scale_type = scale.dtype
        inputs, claims = input_quant(module, group.inputs, rule)
        layer = LayerQuant(input_quant=inputs)
        yield from claims
    yield Explained(stated, "states the shape that the bitmask has")
    scheme = Scheme(kept.tensor.dtype, granularity, scale=scale_type, mask=True)
    yield Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule, layer)
