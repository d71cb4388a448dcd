"""Which modules of a ModelOpt folder are quantized, and where their parts come from.

weight          e4m3 [N, K] | i8 [N, K] | u8 [N, K / 2] two columns a byte (FP4) | u8 [N / 2, K] two rows a byte (INT4)
weight_scale    one, [N], [N, K / group], or [ceil(N / 128), 1, ceil(K / 128), 1]; also called weight_scale_inv
weight_scale_2  one, multiplies the e4m3 scales of NVFP4
input_scale     one            pre_quant_scale [K], multiplies activations
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from fewbit.formats.folder.parts import Shared
from fewbit.formats.folder.resolve import (
    Auxiliary,
    Claim,
    Explained,
    Module,
    Resolved,
    Unquantized,
    split_name,
)
from fewbit.formats.folder.scales import FLOATS, cache_scales, one_value
from fewbit.formats.modelopt.algorithms import ALGORITHMS
from fewbit.formats.modelopt.settings import Layer, Settings
from fewbit.formats.modelopt.weights import WEIGHTS
from fewbit.spec.dtype import E2M1, E4M3, E8M0, I8
from fewbit.spec.granularity import TENSOR, TOKEN, group
from fewbit.spec.layer_quant import InputQuant, LayerQuant
from fewbit.spec.refusal import CheckpointError

SIGNS = frozenset({"weight_scale", "weight_scale_inv", "weight_scale_2", "input_scale", "pre_quant_scale"})


class ModelOptResolver:
    signs = SIGNS

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def check_named(self, modules: Collection[Module]) -> None:
        held: set[str] = set()
        for module in modules:
            for name in (module.names.canonical(module.name), module.names.canonical(module.stack)):
                while name and name not in held:
                    held.add(name)
                    name = name.rpartition(".")[0]
        names = next(iter(modules)).names
        lost = [name for name in self.settings.layers if names.canonical(name) not in held]
        if lost:
            raise CheckpointError(
                f"{self.settings.where}: quantized_layers names {', '.join(lost[:5])}{', ...' if lost[5:] else ''}, which no weight "
                "file holds under that name or another that is known; the config is not that of these weights"
            )

    def resolve(self, module: Module) -> Iterable[Claim]:
        yield from cache_scales(module)
        entry, layer = module.rule(self.settings.rule_of), module.rule(self.settings.layer_of)
        stored = SIGNS & module.leaves.keys() or ("weight" in module.leaves and module.plain_weight is None)
        if entry:
            yield Unquantized(f"the entry {entry!r} of ignore or exclude_modules")
        elif stored and layer is None:
            module.fail(
                f"is quantized, but {self.settings.where} does not name it in quantized_layers; the config is not that of these weights"
            )
        elif stored and layer is not None:
            yield from _quantized(module, layer)
        elif module.plain_weight is not None and self.settings.layers.keys() & {
            module.name,
            *module.spellings,
        }:
            module.fail(
                f"is plain ({module.plain_weight}), but {self.settings.where} names it in quantized_layers; they contradict each other"
            )
        elif module.plain_weight is not None and len(module.plain_weight.shape) == 2:
            yield Unquantized("it is stored as a plain float")


def _quantized(module: Module, layer: Layer) -> Iterator[Claim]:
    algorithm, rule = ALGORITHMS[layer.algorithm], f"quant_algo {layer.algorithm}"
    if {"weight_scale", "weight_scale_inv"} <= module.leaves.keys():
        module.fail("has both weight_scale and weight_scale_inv, expected one of them")
    scheme, shape, parts = WEIGHTS[algorithm.weights](
        module, algorithm, layer.group_size or algorithm.group, rule
    )
    second = module.get("weight_scale_2", "F32") if algorithm.weights == "int4" else None
    if second is not None:
        yield Explained(second, "the scale of FP8 kernels over the weights that weight_scale already gives")
    if algorithm.smoothed:
        module.need("pre_quant_scale", rule)
    pre_scale = module.get("pre_quant_scale", *FLOATS, shape=(shape[1],))
    name = f"{module.name}.pre_quant_scale" if pre_scale is not None else ""
    if pre_scale is not None:
        yield Auxiliary(name, pre_scale.dtype, (shape[1],), Shared(pre_scale, (shape[1],)))
    found = one_value(module, "input_scale")
    if found is not None and not algorithm.inputs:
        yield Explained(module.leaves["input_scale"], f"{rule} leaves activations in 16 bits")
    elif found is not None:
        yield found
    inputs = inputs_of(algorithm.inputs, scheme.granularity.k, found.name if found is not None else "")
    yield Resolved(f"{module.name}.weight", scheme, shape, parts, rule, LayerQuant(inputs, pre_scale=name))


def inputs_of(kind: str, size: int, scale: str) -> InputQuant | None:
    """How an algorithm quantizes inputs; `scale` names their static scale."""
    match kind:
        case "fp8" | "int8":
            return InputQuant(E4M3 if kind == "fp8" else I8, TENSOR if scale else TOKEN, scale=scale)
        case "fp8 token":
            return InputQuant(E4M3, TOKEN, scale=scale)
        case "nvfp4":
            return InputQuant(E2M1, group(size), global_scale=scale, scale_dtype=E4M3)
        case "mxfp8":
            return InputQuant(E4M3, group(size), scale=scale, scale_dtype=E8M0)
    return None
