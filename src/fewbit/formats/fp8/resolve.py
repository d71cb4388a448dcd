"""Which modules of an FP8 folder are quantized, and where their parts come from.

weight            e4m3 [N, K]
weight_scale_inv  f | e8m0 [ceil(N / n), ceil(K / k)], [N], or one; despite its name it multiplies; also `weight_scale`
input_scale       f, one, where activations have a static scale
"""

from __future__ import annotations

from collections.abc import Iterable

from fewbit.formats.folder.parts import Rows
from fewbit.formats.folder.resolve import Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.scales import FLOATS, cache_scales, one_value, scale_by_shape, scale_of_groups
from fewbit.formats.fp8.config import Settings
from fewbit.spec.dtype import E4M3, E8M0
from fewbit.spec.granularity import TENSOR, TOKEN, group
from fewbit.spec.layer_quant import InputQuant, LayerQuant
from fewbit.spec.scheme import Scheme

CODES = ("F8_E4M3", "F8_E4M3FNUZ")
POWERS = ("U8", "F8_E8M0")
SCALES = ("weight_scale_inv", "weight_scale")
SIGNS = frozenset({*SCALES, "input_scale"})


class Fp8Resolver:
    signs = SIGNS

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        yield from cache_scales(module)
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
        weight = module.need("weight", rule, *CODES)
        if len(weight.shape) != 2:
            module.wrong(weight, "a matrix")
        (n, k), leaves = weight.shape, [leaf for leaf in SCALES if leaf in module.leaves]
        if len(leaves) == 2:
            module.fail("has both weight_scale and weight_scale_inv, expected one of them")
        scale = module.need(leaves[0] if leaves else SCALES[0], rule, *FLOATS, *POWERS)
        if size and size[0] == 1:
            granularity, part = scale_of_groups(module, scale, n, k, size[1])
        else:
            granularity, part = scale_by_shape(module, scale, n, k, size)
        element = E8M0 if scale.kind in POWERS else scale.dtype
        found = one_value(module, "input_scale", "activation_scheme static" if self.settings.static else "")
        if found is not None:
            yield found
            inputs = InputQuant(E4M3, TENSOR, scale=found.name)
        elif size:
            inputs = InputQuant(E4M3, group(size[1]), scale_dtype=E8M0 if size == (1, 32) else None)
        else:
            inputs = InputQuant(E4M3, TOKEN)
        scheme = Scheme(weight.dtype, granularity, element)
        parts = {"codes": Rows(weight), "scale": part}
        yield Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule, LayerQuant(input_quant=inputs))
