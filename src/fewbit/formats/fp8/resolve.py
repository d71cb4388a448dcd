"""Which modules of an FP8 folder are quantized, and where their parts come from.

weight            e4m3 [N, K]
weight_scale_inv  f | e8m0 [ceil(N / n), ceil(K / k)], [N], or one; despite its name it multiplies; also `weight_scale`, `scale`
input_scale       f, one, where activations have a static scale
Experts with expert_dtype fp4: weight i8 [N, K / 2], the even column in the low nibble, and scales e8m0 [N, K / 32]
tid2eid           i [vocabulary, experts a token], of a router that has a table (DeepSeek-V4)
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fewbit.formats.folder.parts import PackedRows, Rows, Shared
from fewbit.formats.folder.resolve import Auxiliary, Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.scales import FLOATS, cache_scales, one_value, scale_by_shape, scale_of_groups
from fewbit.formats.fp8.config import Settings
from fewbit.spec.dtype import E2M1, E4M3, E8M0
from fewbit.spec.granularity import TENSOR, TOKEN, group
from fewbit.spec.layer_quant import InputQuant, LayerQuant
from fewbit.spec.scheme import Scheme

CODES = ("F8_E4M3", "F8_E4M3FNUZ")
POWERS = ("U8", "F8_E8M0")
SCALES = ("weight_scale_inv", "weight_scale", "scale")
EXPERT = re.compile(r"\.experts\.\d+\.")
SIGNS = frozenset({*SCALES, "input_scale"})


class Fp8Resolver:
    signs = SIGNS

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        yield from cache_scales(module)
        if (table := module.get("tid2eid", "I32", "I64")) is not None:
            yield Auxiliary(table.name, table.dtype, table.shape, Shared(table, table.shape))
        entry = module.rule(self.settings.rule_of)
        if entry:
            yield Unquantized(f"the entry {entry!r} of modules_to_not_convert")
        elif SIGNS & module.leaves.keys() or ("weight" in module.leaves and module.plain_weight is None):
            yield from self._quantized(module)
        elif module.plain_weight is not None and len(module.plain_weight.shape) == 2:
            yield Unquantized("it is stored as a plain float")

    def _quantized(self, module: Module) -> Iterable[Claim]:
        size = self.settings.block
        rule = "the config (" + (f"blocks of {size[0]} x {size[1]})" if size else "no weight_block_size)")
        fp4 = self.settings.experts == "fp4" and EXPERT.search(f"{module.name}.") is not None
        rule = "expert_dtype fp4" if fp4 else rule
        weight = module.need("weight", rule, *(("I8",) if fp4 else CODES))
        if len(weight.shape) != 2:
            module.wrong(weight, "a matrix")
        (n, k), leaves = weight.shape, [leaf for leaf in SCALES if leaf in module.leaves]
        if len(leaves) > 1:
            module.fail(f"has both {leaves[1]} and {leaves[0]}, expected one of them")
        scale = module.need(leaves[0] if leaves else SCALES[0], rule, *(() if fp4 else FLOATS), *POWERS)
        if fp4:
            yield _expert(module, weight, scale, rule)
            return
        if size and size[0] == 1:
            granularity, part = scale_of_groups(module, scale, n, k, size[1])
        else:
            granularity, part = scale_by_shape(module, scale, n, k, size)
        element = E8M0 if scale.kind in POWERS else scale.dtype
        found = one_value(module, "input_scale", "activation_scheme static" if self.settings.static else "")
        if found is not None:
            yield found
        inputs = inputs_of(size, found.name if found is not None else "")
        scheme = Scheme(weight.dtype, granularity, element)
        parts = {"codes": Rows(weight), "scale": part}
        yield Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule, LayerQuant(input_quant=inputs))


def _expert(module: Module, weight: DiskTensor, scale: DiskTensor, rule: str) -> Resolved:
    """MXFP4, two codes a byte; activations are FP8 in runs of 128."""
    n, k = weight.shape[0], weight.shape[1] * 2
    granularity, part = scale_of_groups(module, scale, n, k, 32)
    parts = {"codes": PackedRows(weight, 4, k), "scale": part}
    inputs = InputQuant(E4M3, group(128), scale_dtype=E8M0)
    scheme = Scheme(E2M1, granularity, E8M0)
    return Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule, LayerQuant(input_quant=inputs))


def inputs_of(size: tuple[int, int] | None, scale: str) -> InputQuant:
    """How inputs are quantized beside weights in blocks of that size; `scale` names their static scale."""
    if scale:
        return InputQuant(E4M3, TENSOR, scale=scale)
    if size:
        return InputQuant(E4M3, group(size[1]), scale_dtype=E8M0 if size == (1, 32) else None)
    return InputQuant(E4M3, TOKEN)
