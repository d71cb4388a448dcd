"""The experts of an MXFP4 folder, one canonical weight for each.

gate_up_proj_blocks  u8 [E, 2 I, H / 32, 16]    gate_up_proj_scales  u8 [E, 2 I, H / 32]    gate_up_proj_bias  f [E, 2 I]
down_proj_blocks     u8 [E, H, I / 32, 16]      down_proj_scales     u8 [E, H, I / 32]      down_proj_bias     f [E, H]

Rows 0, 2, 4, ... of gate_up_proj are the gate's, the others up's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fewbit.formats.folder.parts import EveryRow, Part
from fewbit.formats.folder.resolve import Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.safetensors import PLAIN, DiskTensor
from fewbit.formats.mxfp4.config import Settings
from fewbit.formats.mxfp4.decode import PackedEveryRow
from fewbit.spec.dtype import E2M1, E8M0
from fewbit.spec.granularity import group
from fewbit.spec.scheme import Scheme

MXFP4 = Scheme(E2M1, group(32), E8M0)
RULE = "quant_method mxfp4"
STACKS = ("gate_up_proj", "down_proj")
SIGNS = frozenset(f"{stack}_{leaf}" for stack in STACKS for leaf in ("blocks", "scales"))


class Mxfp4Resolver:
    signs = SIGNS

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        entry = module.rule(self.settings.rule_of)
        if entry:
            yield Unquantized(f"the entry {entry!r} of modules_to_not_convert")
        elif SIGNS & module.leaves.keys():
            yield from _experts(module)
        elif module.plain_weight is not None and len(module.plain_weight.shape) == 2:
            yield Unquantized("it is stored as a plain float")


def _experts(module: Module) -> Iterator[Claim]:
    both, down = (module.need(f"{stack}_blocks", RULE, "U8") for stack in STACKS)
    for blocks in (both, down):
        if len(blocks.shape) != 4 or blocks.shape[3] != 16:
            module.wrong(blocks, "shape [experts, rows, columns / 32, 16]")
    experts, rows, hidden = both.shape[0], both.shape[1], both.shape[2] * 32
    if rows % 2:
        module.wrong(both, "an even number of rows, gate and up in turn")
    if down.shape[:2] != (experts, hidden) or down.shape[2] * 64 != rows:
        module.wrong(down, f"shape [{experts}, {hidden}, {rows} / 64, 16], as gate_up_proj_blocks has it")
    for stack, blocks in zip(STACKS, (both, down)):
        scales = module.need(f"{stack}_scales", RULE, "U8", "F8_E8M0", shape=blocks.shape[:3])
        bias = module.get(f"{stack}_bias", *PLAIN, shape=blocks.shape[:2])
        names = ("gate_proj", "up_proj") if stack == "gate_up_proj" else ("down_proj",)
        for expert in range(experts):
            for first, name in enumerate(names):
                own = None if bias is None else bias.at(expert)
                at = f"{module.name}.{expert}.{name}"
                yield from _expert(at, blocks.at(expert), scales.at(expert), own, first, len(names))


def _expert(
    name: str, blocks: DiskTensor, scales: DiskTensor, bias: DiskTensor | None, first: int, step: int
) -> Iterator[Resolved]:
    """Rows first, first + step, ..."""
    n, k = blocks.shape[0] // step, blocks.shape[1] * 32
    parts: dict[str, Part] = {
        "codes": PackedEveryRow(EveryRow(blocks, first, step), k),
        "scale": EveryRow(scales, first, step),
    }
    yield Resolved(f"{name}.weight", MXFP4, (n, k), parts, RULE)
    if bias is not None:
        yield Resolved(f"{name}.bias", Scheme(bias.dtype), (n,), {"codes": EveryRow(bias, first, step)}, RULE)
