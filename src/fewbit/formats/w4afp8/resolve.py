"""The experts of a W4AFP8 folder, and its FP8 layers as the format fp8 has them.

weight            i8 [N, K / 2]    two's complement codes of 4 bits, the even column in the low nibble
weight_scale_inv  f  [N, K / group_size]    multiplies, despite its name
input_scale       f  one, static; beside the weight, or as `w1`, `w3`, `w2` beside gate_proj, up_proj, down_proj
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator

from fewbit.formats.folder.parts import PackedRows, Part
from fewbit.formats.folder.resolve import Claim, Module, Resolved, split_name
from fewbit.formats.folder.scales import FLOATS, one_value, scale_of_groups
from fewbit.formats.fp8.resolve import EXPERT, Fp8Resolver
from fewbit.formats.w4afp8.config import METHOD, Settings
from fewbit.spec.dtype import E4M3, I4
from fewbit.spec.granularity import TENSOR
from fewbit.spec.layer_quant import InputQuant, LayerQuant
from fewbit.spec.scheme import Scheme

SHORT = re.compile(r"(.*\.experts\.\d+)\.(w[123])")
LONG = {"w1": "gate_proj", "w2": "down_proj", "w3": "up_proj"}


class W4AFp8Resolver:
    signs = Fp8Resolver.signs

    def __init__(self, settings: Settings, names: Collection[str]) -> None:
        """`names`: of all tensors."""
        self.settings, self.names = settings, names
        self.linears = Fp8Resolver(settings.linears)

    def split(self, name: str) -> tuple[str, str]:
        module, leaf = split_name(name)
        short = SHORT.fullmatch(module)
        if leaf == "input_scale" and short and f"{module}.weight" not in self.names:
            return f"{short[1]}.{LONG[short[2]]}", leaf
        return module, leaf

    def resolve(self, module: Module) -> Iterable[Claim]:
        weight = module.get("weight")
        packed = weight is not None and weight.kind == "I8" and EXPERT.search(f"{module.name}.")
        skipped = module.rule(self.settings.linears.rule_of)
        if not packed:
            yield from self.linears.resolve(module)
        elif skipped:
            module.fail(
                f"is quantized ({weight}), but {self.settings.linears.where} leaves out {skipped!r}; they contradict each other"
            )
        else:
            yield from self._expert(module)

    def _expert(self, module: Module) -> Iterator[Claim]:
        weight, scale = module.need("weight", METHOD, "I8"), module.need("weight_scale_inv", METHOD, *FLOATS)
        if len(weight.shape) != 2:
            module.wrong(weight, "a matrix")
        n, k = weight.shape[0], weight.shape[1] * 2
        granularity, part = scale_of_groups(module, scale, n, k, self.settings.group_size)
        found = one_value(module, "input_scale", METHOD)
        assert found is not None
        yield found
        parts: dict[str, Part] = {"codes": PackedRows(weight, 4, k, "twos"), "scale": part}
        scheme = Scheme(I4, granularity, scale.dtype)
        layer = LayerQuant(InputQuant(E4M3, TENSOR, scale=found.name))
        yield Resolved(f"{module.name}.weight", scheme, (n, k), parts, METHOD, layer)
