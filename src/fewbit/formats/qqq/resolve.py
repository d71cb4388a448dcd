"""Which modules of a QQQ folder are quantized, and where their parts come from.

B          i32 [K/16, 2 N]      4-bit codes with 8 added, in Marlin's layout for 8-bit activations
s_group    f16 [K/group, N]     makes a code into an 8-bit one: round((code - 8) * s_group), cut to -128..127
s_channel  f32 [1, N]           scale of the 8-bit code, so w = s_channel * that
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from fewbit.formats.folder.marlin import ACROSS, BYTES, TILE, MarlinCodes, MarlinScales
from fewbit.formats.folder.parts import Part
from fewbit.formats.folder.resolve import Claim, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.qqq.config import QqqConfig
from fewbit.schemes.arrays import Array
from fewbit.spec.dtype import F32, I8
from fewbit.spec.granularity import CHANNEL, TOKEN
from fewbit.spec.layer_quant import InputQuant, LayerQuant
from fewbit.spec.refusal import CheckpointError
from fewbit.spec.scheme import Scheme

SIGNS = frozenset({"B", "s_group", "s_channel"})


class QqqResolver:
    signs = SIGNS

    def __init__(self, config: QqqConfig) -> None:
        self.config = config

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        if SIGNS & module.leaves.keys():
            yield _packed(module, self.config.group_size)
        elif module.plain_weight is not None and len(module.plain_weight.shape) == 2:
            if "lm_head" in (module.name, *module.spellings) and self.config.lm_head:
                module.fail(
                    f"is plain ({module.plain_weight}), but {self.config.where} says lm_head true; they contradict each other"
                )
            yield Unquantized("it is stored as a plain float")


def _packed(module: Module, length: int) -> Resolved:
    rule = f"the config (group_size {length})"
    words = module.need("B", rule, "I32", "U32")
    if len(words.shape) != 2 or words.shape[1] % (2 * ACROSS):
        module.wrong(words, f"a matrix of words in Marlin's layout, {ACROSS} outputs at a time ({rule})")
    k, n = words.shape[0] * TILE, words.shape[1] // 2
    if k % length or k == length:
        module.fail(
            f"has K={k}, expected at least two groups of {length} ({rule}); one group is stored otherwise"
        )
    groups = module.need("s_group", rule, "F16", shape=(k // length, n))
    channel = module.need("s_channel", rule, "F32", shape=(1, n))
    codes = EightBit(MarlinCodes(words, BYTES), MarlinScales(groups), length)
    parts: dict[str, Part] = {"codes": codes, "scale": MarlinScales(channel, single=True)}
    layer = LayerQuant(InputQuant(I8, TOKEN))
    return Resolved(f"{module.name}.weight", Scheme(I8, CHANNEL, scale=F32), (n, k), parts, rule, layer)


@dataclass(frozen=True, slots=True)
class EightBit:
    """The 8-bit codes that a kernel multiplies: rounded to even, as the tool does."""

    codes: MarlinCodes
    scales: MarlinScales
    length: int

    @property
    def tensors(self) -> tuple[DiskTensor, ...]:
        return (*self.codes.tensors, *self.scales.tensors)

    def read(self, start: int, stop: int) -> Array:
        scales = self.scales.read(start, stop).astype(np.float32)
        if not np.isfinite(scales).all():
            tensor = self.scales.tensor
            raise CheckpointError(
                f"{tensor.file.path}: tensor {tensor} has a NaN or infinite scale; the checkpoint is broken, fetch it again"
            )
        steps = self.codes.read(start, stop) * np.repeat(scales, self.length, axis=1)
        out: Array = np.clip(np.round(steps), -128, 127).astype(np.int8)
        return out
