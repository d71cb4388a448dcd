"""Which modules are quantized, and where their parts come from.

weight  i8 or e4m3 [N, K]    weight_scale  f32 [N, 1]    or by block  weight_scale_inv  f32 [N / n, K / k], partial blocks count
Either scale multiplies, whatever its name.
"""

from __future__ import annotations

from collections.abc import Iterable

from fewbit.formats.folder.parts import Blocked, Part, Rows
from fewbit.formats.folder.resolve import Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.w8a8.config import W8A8Config
from fewbit.spec.dtype import E4M3, F32, I8
from fewbit.spec.granularity import CHANNEL, TOKEN, Granularity, group
from fewbit.spec.layer_quant import InputQuant, LayerQuant
from fewbit.spec.scheme import Scheme


class W8A8Resolver:
    signs = frozenset({"weight_scale", "weight_scale_inv"})

    def __init__(self, config: W8A8Config) -> None:
        self.config = config

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        weight, skipped = module.leaves.get("weight"), module.rule(self.config.skips)
        packed = bool(self.signs & module.leaves.keys()) or (weight is not None and not weight.is_plain)
        if packed and skipped:
            module.fail(
                f"is quantized (it has {', '.join(module.leaves)}), but {self.config.where} leaves out {skipped!r}; they "
                "contradict each other"
            )
        if packed:
            yield self._quantized(module)
        elif weight is not None and len(weight.shape) == 2:
            yield Unquantized(
                f"the config leaves out {skipped!r}" if skipped else "it is stored as a plain float"
            )

    def _quantized(self, module: Module) -> Resolved:
        rule, block = self.config.method, self.config.block
        element = E4M3 if rule == "w8a8_fp8" else I8
        weight = module.need("weight", rule, "F8_E4M3" if element is E4M3 else "I8")
        if len(weight.shape) != 2:
            module.wrong(weight, "a matrix")
        n, k = weight.shape
        scale: Part
        if block is None:
            granularity, inputs = CHANNEL, TOKEN
            scale = Rows(module.need("weight_scale", rule, "F32", shape=(n, 1)))
        else:
            granularity, inputs = Granularity("block", *block), group(block[1])
            shape = (-(-n // block[0]), -(-k // block[1]))
            scale = Blocked(module.need("weight_scale_inv", rule, "F32", shape=shape), block[0])
        parts: dict[str, Part] = {"codes": Rows(weight), "scale": scale}
        scheme, layer = Scheme(element, granularity, scale=F32), LayerQuant(InputQuant(element, inputs))
        return Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule, layer)
