"""Which modules of a Quark folder are quantized, and what lies beside their weights.

weight, weight_scale, weight_scale_2, weight_zero_point     see `weights`
input_scale, input_scale_2, input_zero_point                one number each, where activations have static scales
output_scale                                                of k_proj and v_proj: the scale of the cache
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fewbit.formats.folder.parts import Shared
from fewbit.formats.folder.resolve import Auxiliary, Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.scales import ONE, cache_scales, one_value
from fewbit.formats.quark.config import Settings
from fewbit.formats.quark.spec import TensorSpec
from fewbit.formats.quark.weights import weight_parts
from fewbit.spec.dtype import E2M1, E2M3, E3M2, E4M3, E8M0, I8, DType
from fewbit.spec.granularity import TENSOR, TOKEN, group
from fewbit.spec.layer_quant import InputQuant, LayerQuant

SIGNS = frozenset(
    {
        "weight_scale",
        "weight_scale_2",
        "weight_zero_point",
        "weight_zero_point_2",
        "input_scale",
        "input_scale_2",
        "input_zero_point",
    }
)
INPUTS: dict[str, DType] = {"fp8_e4m3": E4M3, "int8": I8, "fp4": E2M1, "fp6_e2m3": E2M3, "fp6_e3m2": E3M2}


class QuarkResolver:
    signs = SIGNS

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        yield from cache_scales(module, ("k_scale", "v_scale", "output_scale"))
        entry = module.rule(self.settings.rule_of)
        stored = SIGNS & module.leaves.keys() or ("weight" in module.leaves and module.plain_weight is None)
        if entry:
            yield Unquantized(f"the entry {entry!r} of exclude")
        elif stored:
            spec, rule = self.settings.spec_of(module)
            if spec is None or spec.weight is None:
                module.fail(
                    f"is quantized, but {rule} of {self.settings.where} gives its weight no spec; they contradict each other"
                )
            scheme, shape, parts = weight_parts(
                module, spec.weight, self.settings.reordered, f"{rule} ({spec.weight})"
            )
            beside = list(_beside(module))
            yield from beside
            inputs = (
                None
                if spec.inputs is None
                else _inputs(spec.inputs, {a.name.rpartition(".")[2]: a.name for a in beside})
            )
            yield Resolved(f"{module.name}.weight", scheme, shape, parts, rule, LayerQuant(inputs))
        elif module.plain_weight is not None and len(module.plain_weight.shape) == 2:
            if self.settings.by_name.keys() & {module.name, *module.spellings}:
                module.fail(
                    f"is plain ({module.plain_weight}), but {self.settings.where} names it in layer_quant_config; they contradict each other"
                )
            yield Unquantized("it is stored as a plain float")


def _beside(module: Module) -> Iterator[Auxiliary]:
    for leaf in ("input_scale", "input_scale_2"):
        found = one_value(module, leaf)
        if found is not None:
            yield found
    zero = module.get("input_zero_point", "I8", "I32")
    if zero is not None:
        if zero.shape not in ONE:
            module.wrong(zero, "a single number")
        yield Auxiliary(f"{module.name}.input_zero_point", zero.dtype, (1,), Shared(zero, (1,)))


def _inputs(spec: TensorSpec, names: dict[str, str]) -> InputQuant | None:
    if spec.element not in INPUTS:
        return None
    granularity = group(spec.group) if spec.group else TENSOR if spec.scheme == "per_tensor" else TOKEN
    return InputQuant(
        INPUTS[spec.element], granularity, names.get("input_scale", ""), names.get("input_zero_point", ""),
        names.get("input_scale_2", ""), E8M0 if spec.powers else E4M3 if spec.scaled else None,
        symmetric=spec.symmetric or not spec.dynamic,
    )  # fmt: skip
