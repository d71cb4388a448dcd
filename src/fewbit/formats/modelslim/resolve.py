"""Which modules of a ModelSlim folder are quantized, by the type that the description gives their weight.

integers.py   W8A8, W8A8S, W8A8_MIX, W8A8_DYNAMIC, W8A16, W4A16, W4A4_DYNAMIC, W4A8_DYNAMIC      static.py   what W8A8 adds
floats.py     WFP8AFP8_DYNAMIC, W8A8_MXFP8, W4A4_MXFP4, W4A8_MXFP, W4A4_MXFP4_DUALSCALE
C8            kv_cache_scale, kv_cache_offset f [..] beside k_proj and v_proj: how the cache was calibrated to 8 bits
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fewbit.formats.folder.parts import Shared
from fewbit.formats.folder.resolve import Auxiliary, Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.modelslim.config import CACHE, PLAIN, Description
from fewbit.formats.modelslim.floats import FLOAT_KINDS
from fewbit.formats.modelslim.integers import integers
from fewbit.formats.modelslim.static import SIGNS as STATIC_SIGNS
from fewbit.formats.modelslim.static import STATIC, static_claims
from fewbit.spec.dtype import E2M1, E4M3, E8M0, F32, I4, I8
from fewbit.spec.granularity import TOKEN, group
from fewbit.spec.layer_quant import NO_LAYER_QUANT, InputQuant, LayerQuant

FLOATS = ("F32", "F16", "BF16")
CACHE_LEAVES = ("kv_cache_scale", "kv_cache_offset")
INPUTS = {  # the tool's own model quantizes int8 activations with a zero point, bit for bit so in its logits
    "W8A8_DYNAMIC": InputQuant(I8, TOKEN, symmetric=False),
    "W4A8_DYNAMIC": InputQuant(I8, TOKEN, symmetric=False),
    "W4A4_DYNAMIC": InputQuant(I4, TOKEN),
    "WFP8AFP8_DYNAMIC": InputQuant(E4M3, TOKEN),
    "W8A8_MXFP8": InputQuant(E4M3, group(32), scale_dtype=E8M0),
    "W4A4_MXFP4": InputQuant(E2M1, group(32), scale_dtype=E8M0),
    "W4A4_MXFP4_DUALSCALE": InputQuant(E2M1, group(32), scale_dtype=E8M0),
    "W4A8_MXFP": InputQuant(E4M3, group(32), scale_dtype=E8M0),
}


class ModelSlimResolver:
    signs = STATIC_SIGNS | {
        "weight_scale", "weight_offset", "weight_scale_second", "weight_offset_second", "weight_dual_scale", "scale_bias",
        *CACHE_LEAVES,
    }  # fmt: skip

    def __init__(self, description: Description) -> None:
        self.description = description

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        weight = module.leaves.get("weight")
        kinds = {leaf: self.description.kinds[t.name] for leaf, t in module.leaves.items()}
        kind = kinds["weight"] if weight is not None else PLAIN[0]
        rule = f"{self.description.where} (type {kind})"
        for leaf, said in kinds.items():
            cache = said == CACHE and leaf in CACHE_LEAVES
            if not cache and (said not in (kind, *PLAIN) or (said != kind and leaf in self.signs)):
                module.fail(
                    f"has tensor {module.leaves[leaf]} of type {said!r} beside a weight of type {kind!r}; they contradict each other"
                )
        yield from _cache(module)
        if kind not in PLAIN:
            yield from self._quantized(module, kind, rule)
        elif weight is not None and len(weight.shape) == 2 and not set(CACHE_LEAVES) & module.leaves.keys():
            yield Unquantized(rule)

    def _quantized(self, module: Module, kind: str, rule: str) -> Iterator[Claim]:
        layer = LayerQuant(INPUTS[kind]) if kind in INPUTS else NO_LAYER_QUANT
        if kind in FLOAT_KINDS:
            found = FLOAT_KINDS[kind](module, rule)
        else:
            found = integers(module, self.description, kind, rule)
            if kind in STATIC:
                layer = yield from static_claims(module, rule)
        yield from found.explained
        yield Resolved(f"{module.name}.weight", found.scheme, found.shape, found.parts, rule, layer)


def _cache(module: Module) -> Iterator[Auxiliary]:
    for leaf in CACHE_LEAVES:
        tensor = module.get(leaf, *FLOATS)
        if tensor is not None:
            shape = tensor.shape or (1,)
            yield Auxiliary(
                tensor.name, F32 if tensor.kind == "F32" else tensor.dtype, shape, Shared(tensor, shape)
            )
