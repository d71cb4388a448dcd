"""Which modules of an AutoRound folder are quantized: by the tensors present, with the settings of extra_config or of all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fewbit.formats.auto_round.config import AWQ, GPTQ, PLAIN_BITS, AutoRoundConfig, Settings
from fewbit.formats.auto_round.floats import (
    fp8_block_module,
    fp8_module,
    mxfp4_module,
    mxfp8_module,
    nvfp4_module,
)
from fewbit.formats.awq import config as awq
from fewbit.formats.awq import resolve as awq_resolve
from fewbit.formats.folder.resolve import Claim, Module, Unquantized, split_name
from fewbit.formats.gptq import config as gptq
from fewbit.formats.gptq import resolve as gptq_resolve

SIGNS = gptq_resolve.SIGNS | {
    "weight_packed", "weight_scale", "weight_scale_inv", "weight_global_scale", "input_scale", "input_global_scale",
}  # fmt: skip


class AutoRoundResolver:
    signs = SIGNS

    def __init__(self, config: AutoRoundConfig) -> None:
        self.config = config

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        rule = self.config.rule_of((module.name, *module.spellings))
        settings = self.config.settings_of(rule)
        said = f"extra_config {rule.text!r}" if rule else "the config"
        if settings.bits >= PLAIN_BITS:
            yield Unquantized(f"{said} (bits {settings.bits})")
        elif SIGNS & module.leaves.keys():
            words = f"bits {settings.bits}, group_size {settings.block or settings.group_size}, {settings.packing}"
            yield from _packed(module, settings, f"{said} ({words})")
        elif module.plain_weight is not None and len(module.plain_weight.shape) == 2:
            if rule and rule.text in (module.name, *module.spellings):
                module.fail(
                    f"is plain ({module.plain_weight}), but {self.config.where} gives it {settings.bits} bits by name in "
                    "extra_config; they contradict each other"
                )
            yield Unquantized("it is stored as a plain float")


def _packed(module: Module, settings: Settings, rule: str) -> Iterator[Claim]:
    size = settings.group_size
    if settings.block:
        yield from fp8_block_module(module, settings.block, rule)
    elif settings.packing == GPTQ:
        as_gptq = gptq.Settings(settings.bits, size, settings.sym, version=1)
        yield from gptq_resolve.packed_module(module, as_gptq, rule)
    elif settings.packing == AWQ:
        as_awq = awq.Settings(size, zero_point=not settings.sym)
        yield from awq_resolve.packed_module(module, as_awq, rule)
    elif settings.data_type == "fp":
        yield from fp8_module(module, settings, rule)
    elif settings.data_type == "mx_fp":
        yield from (mxfp8_module if settings.bits == 8 else mxfp4_module)(module, rule)
    else:
        yield from nvfp4_module(module, rule)
