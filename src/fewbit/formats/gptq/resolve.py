"""Which modules of a GPTQ folder are quantized, and where their parts come from.

qweight  i32 [K * bits / 32, N]    codes along K          qzeros  i32 [K / group, N * bits / 32]    along N
scales   f   [K / group, N]                               g_idx   i32 [K]                           group of each column
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from fewbit.formats.folder.parts import Columns, Part, Shared
from fewbit.formats.folder.resolve import Claim, Explained, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.safetensors import DiskTensor
from fewbit.formats.gptq.config import GptqConfig, Settings
from fewbit.formats.gptq.decode import SymmetricCodes, code_part, zero_part
from fewbit.formats.gptq.marlin import SIGNS as MARLIN_SIGNS
from fewbit.formats.gptq.marlin import marlin_module
from fewbit.schemes.arrays import Array
from fewbit.spec.dtype import dtype
from fewbit.spec.granularity import CHANNEL, group
from fewbit.spec.scheme import Scheme

WORDS = ("I32", "U32")
FLOATS = ("F16", "BF16", "F32")
SIGNS = frozenset({"qweight", "qzeros", "scales", "g_idx"})


class GptqResolver:
    signs = SIGNS | MARLIN_SIGNS
    notes = frozenset({"workspace"})

    def __init__(self, config: GptqConfig) -> None:
        self.config = config

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        rule = module.rule(self.config.rule_of)
        if rule and rule.skip:
            yield Unquantized(f"dynamic rule {rule.text!r}")
        elif self.signs & module.leaves.keys():
            said = f"dynamic rule {rule.text!r}" if rule else "the config"
            settings = self.config.settings_of(rule)
            packed = marlin_module if settings.marlin else packed_module
            yield from packed(
                module, settings, f"{said} (bits {settings.bits}, group_size {settings.group_size})"
            )
        elif module.plain_weight is not None and len(module.plain_weight.shape) == 2:
            if "lm_head" in (module.name, *module.spellings) and self.config.lm_head:
                module.fail(
                    f"is plain ({module.plain_weight}), but {self.config.where} says lm_head true; they contradict each other"
                )
            yield Unquantized("it is stored as a plain float")


def packed_module(module: Module, settings: Settings, rule: str) -> Iterator[Claim]:
    """One module as GPTQ packs it; other formats that write the same tensors call this too."""
    bits = settings.bits
    qweight = module.need("qweight", rule, *WORDS)
    if len(qweight.shape) != 2 or qweight.shape[0] * 32 % bits:
        module.wrong(qweight, f"a matrix of words that hold {bits}-bit codes ({rule})")
    k, n = qweight.shape[0] * 32 // bits, qweight.shape[1]
    length = k if settings.group_size == -1 else settings.group_size
    if k % length:
        module.fail(
            f"has K={k}, no multiple of its group size {length} ({rule}); the config does not fit the tensors"
        )
    groups = k // length
    scales = module.need("scales", rule, *FLOATS, shape=(groups, n))
    shape = (groups, -(-n * bits // 32))
    qzeros = (
        module.get("qzeros", *WORDS, shape=shape)
        if settings.sym
        else module.need("qzeros", rule, *WORDS, shape=shape)
    )
    if (settings.planar or bits == 3) and n % 32:
        module.wrong(qweight, f"a multiple of 32 output rows at {bits} bits")
    if settings.desc_act and groups > 1:
        module.need("g_idx", f"desc_act ({rule})")
    index = module.get("g_idx", "I32", "I64", shape=(k,))
    order = None if index is None else _activation_order(module, index, length, groups)
    if index is not None and order is None:
        yield Explained(index, "every column lies in the group of its position")
    one_group = groups == 1 and order is None
    parts: dict[str, Part] = {"codes": code_part(qweight, settings, k), "scale": Columns(scales)}
    if settings.sym:
        if qzeros is not None:
            parts["codes"] = SymmetricCodes(
                code_part(qweight, settings, k), qweight, qzeros, zero_part(qzeros, settings), bits
            )
    else:
        assert qzeros is not None
        parts["zero_point"] = zero_part(qzeros, settings)
    if order is not None and index is not None:
        parts["group_index"] = Shared(index, (k,))
    scheme = Scheme(
        dtype(f"{'i' if settings.sym else 'u'}{bits}"),
        CHANNEL if one_group else group(length),
        scale=scales.dtype,
        zero_point=None if settings.sym else dtype(f"u{bits}"),
        group_index=order is not None,
    )
    yield Resolved(f"{module.name}.weight", scheme, (n, k), parts, rule)


def _activation_order(module: Module, index: DiskTensor, length: int, groups: int) -> Array | None:
    """The group of every column, None when each lies where its position says. Read now: it decides on the scheme."""
    order = index.whole()
    wrong = np.flatnonzero((order < 0) | (order >= groups))
    if wrong.size:
        module.wrong(
            index, f"groups from 0 to {groups - 1}, but column {wrong[0]} is in group {order[wrong[0]]}"
        )
    trivial = np.array_equal(order, np.arange(len(order)) // length)
    return None if trivial else order
