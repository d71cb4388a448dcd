"""Which modules of a BitNet folder are ternary, and where their parts come from.

weight        u8 [N / 4, K]    four rows a byte        weight_scale  f [1]
              f [N, K]         where quantization_mode is online, with no scale beside it

A layer of class bitlinear divides its result by weight_scale, one of class autobitlinear multiplies by it.
"""

from __future__ import annotations

from collections.abc import Iterable

from fewbit.formats.bitnet.config import Settings
from fewbit.formats.bitnet.decode import PER_BYTE, OnlineScale, OnlineTernary, TernaryRows
from fewbit.formats.folder.parts import Part, Shared
from fewbit.formats.folder.resolve import Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.folder.scales import FLOATS, ONE, Reciprocal
from fewbit.spec.dtype import F32, I2, I8
from fewbit.spec.granularity import TENSOR, TOKEN
from fewbit.spec.layer_quant import InputQuant, LayerQuant
from fewbit.spec.scheme import Scheme

LAYER = LayerQuant(InputQuant(I8, TOKEN))


class BitNetResolver:
    signs = frozenset({"weight_scale"})

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        rule, plain = module.rule(self.settings.rule_of), module.plain_weight
        if rule:
            yield Unquantized(rule)
        elif self.signs & module.leaves.keys() or ("weight" in module.leaves and plain is None):
            yield self._packed(module)
        elif plain is not None and len(plain.shape) == 2:
            if not self.settings.online:
                yield Unquantized("it is stored as a plain float")
            elif module.name.rpartition(".")[2].startswith("embed"):
                yield Unquantized("it is an embedding and no linear layer")
            else:
                yield _online(module, plain)

    def _packed(self, module: Module) -> Resolved:
        rule = f"linear_class {'bitlinear' if self.settings.divides else 'autobitlinear'}"
        if self.settings.online:
            module.fail(
                f"holds packed weights or a scale, but {self.settings.where} says quantization_mode online; they contradict each "
                "other"
            )
        weight = module.need("weight", rule, "U8")
        if len(weight.shape) != 2:
            module.wrong(weight, "a matrix, four rows in each of its own")
        scale = module.need("weight_scale", rule, *FLOATS)
        if scale.shape not in ONE:
            module.wrong(scale, "a single number")
        divides = self.settings.divides
        parts: dict[str, Part] = {
            "codes": TernaryRows(weight),
            "scale": Reciprocal(scale) if divides else Shared(scale, (1,)),
        }
        scheme = Scheme(I2, TENSOR, scale=F32 if divides else scale.dtype)
        shape = (weight.shape[0] * PER_BYTE, weight.shape[1])
        return Resolved(f"{module.name}.weight", scheme, shape, parts, rule, LAYER)


def _online(module: Module, weight: DiskTensor) -> Resolved:
    scale = OnlineScale(weight)
    parts: dict[str, Part] = {"codes": OnlineTernary(scale), "scale": scale}
    scheme = Scheme(I2, TENSOR, scale=weight.dtype)
    return Resolved(f"{module.name}.weight", scheme, weight.shape, parts, "quantization_mode online", LAYER)
