"""Which modules of a QoQ folder are quantized, and where their parts come from.

by row      qweight i8 [N, K / 2]   s1_scales f16 [N]   s1_szeros f16 [N]              w = s1 q - szeros
by groups   qweight i8 [N, K / 2]   s1_scales f16 [N]   s2_scales, s2_zeros i8 [K / 128, N]    w = s1 (s2 q + zeros)
"""

from __future__ import annotations

from collections.abc import Iterable

from fewbit.formats.folder.parts import Part, Rows
from fewbit.formats.folder.resolve import Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.qoq.config import GROUP, METHOD, Settings
from fewbit.formats.qoq.decode import TILE, Negated, SecondLevel, TiledCodes
from fewbit.spec.dtype import F16, I8, U4
from fewbit.spec.granularity import CHANNEL, TOKEN, group
from fewbit.spec.layer_quant import InputQuant, LayerQuant
from fewbit.spec.scheme import Scheme

BY_ROW = Scheme(U4, CHANNEL, F16, offset=F16)
LAYER = LayerQuant(InputQuant(I8, TOKEN))


def by_groups(k: int) -> Scheme:
    """Two levels, the second for a whole row; its offset has the scale's size and the other sign."""
    return Scheme(U4, group(GROUP), I8, offset=I8, super_scale=F16, super_block=k)


class QoqResolver:
    signs = frozenset({"qweight", "s1_scales", "s1_szeros", "s2_scales", "s2_zeros"})

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        if "qweight" in module.leaves:
            yield self._quantized(module)
        elif module.plain_weight is not None and len(module.plain_weight.shape) == 2:
            yield Unquantized("it is stored as a plain float")

    def _quantized(self, module: Module) -> Resolved:
        rule = f"{METHOD} (group_size {GROUP if self.settings.grouped else -1})"
        qweight = module.need("qweight", rule, "I8")
        if len(qweight.shape) != 2 or qweight.shape[0] % TILE or qweight.shape[1] * 2 % TILE:
            module.wrong(qweight, f"tiles of {TILE} x {TILE} codes, two in a byte")
        n, k = qweight.shape[0], qweight.shape[1] * 2
        scale = module.need("s1_scales", rule, "F16", shape=(n,))
        parts: dict[str, Part] = {"codes": TiledCodes(qweight)}
        if not self.settings.grouped:
            zeros = module.need("s1_szeros", rule, "F16", shape=(n,))
            parts |= {"scale": Rows(scale, (1,)), "offset": Negated(zeros)}
            return Resolved(f"{module.name}.weight", BY_ROW, (n, k), parts, rule, LAYER)
        if k % GROUP:
            module.wrong(qweight, f"a multiple of {GROUP} columns ({rule})")
        second = [module.need(leaf, rule, "I8", shape=(k // GROUP, n)) for leaf in ("s2_scales", "s2_zeros")]
        parts |= {"scale": SecondLevel(second[0]), "offset": SecondLevel(second[1])}
        parts |= {"super_scale": Rows(scale, (1,)), "super_offset": Negated(scale)}
        return Resolved(f"{module.name}.weight", by_groups(k), (n, k), parts, rule, LAYER)
