"""Which modules of an HQQ folder are quantized, and where their parts come from: w = (code - zero) * scale.

W_q    u8 [N K / (g p), g] (axis 1) or [g / p, N K / g] (axis 0), p codes a byte; i32 with ten codes a word at 3 bits;
       with view_as_float the same bytes as floats
scale  f [N K / g, 1] or [1, N K / g]; one, where channel_wise is false          zero   as scale, in units of codes
nbits, group_size, axis, shape, packing, ...   see `meta`
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import ceil

from fewbit.formats.folder.parts import Part, Shared
from fewbit.formats.folder.resolve import Claim, Explained, Module, Resolved, Unquantized, split_name
from fewbit.formats.folder.safetensors import PLAIN, DiskTensor
from fewbit.formats.folder.scales import FLOATS, ONE
from fewbit.formats.hqq.config import HqqConfig, Settings
from fewbit.formats.hqq.decode import (
    PACKING_OF,
    PACKINGS,
    AlongGroups,
    DownGroups,
    PackedDownGroups,
    grain_of,
)
from fewbit.formats.hqq.meta import LEAVES, RULE, Meta, read_meta
from fewbit.spec.dtype import dtype
from fewbit.spec.granularity import TENSOR, Granularity
from fewbit.spec.scheme import Scheme

SIGNS = LEAVES | {"W_q", "scale", "zero", "zero_scale", "scale_q", "zero_q"}


class HqqResolver:
    signs = frozenset(SIGNS)
    notes = LEAVES

    def __init__(self, config: HqqConfig) -> None:
        self.config = config

    def split(self, name: str) -> tuple[str, str]:
        return split_name(name)

    def resolve(self, module: Module) -> Iterable[Claim]:
        skipped = module.rule(self.config.skips)
        if skipped:
            yield Unquantized(f"the entry {skipped!r} of skip_modules")
        elif "W_q" in module.leaves:
            yield from self._quantized(module)
        elif module.plain_weight is not None and len(module.plain_weight.shape) == 2:
            yield Unquantized("it is stored as a plain float")

    def _quantized(self, module: Module) -> Iterator[Claim]:
        meta, said = read_meta(module), module.rule(self.config.settings_of)
        if said is None:
            module.fail(
                f"is quantized, but {self.config.where} does not name it in quant_config; they contradict each other"
            )
        if said.group_size is None:
            said = replace(said, group_size=meta.k if said.axis == 1 else meta.n)
        if meta.settings != said:
            module.fail(
                f"stores {meta.settings}, but {self.config.where} says {said}; they contradict each other"
            )
        for leaf in LEAVES & module.leaves.keys():
            yield Explained(module.leaves[leaf], "it describes W_q beside it")
        granularity, scale = _values(module, "scale", meta)
        _, zero = _values(module, "zero", meta)
        kinds = [part.tensors[0].dtype for part in (scale, zero)]
        codes, rule = dtype(f"u{ceil(said.nbits)}"), f"{RULE} ({said.nbits:g} bits, axis {said.axis})"
        parts: dict[str, Part] = {
            "codes": _codes(module, meta, codes.highest),
            "scale": scale,
            "zero_point": zero,
        }
        scheme = Scheme(codes, granularity, kinds[0], zero_point=kinds[1])
        yield Resolved(f"{module.name}.weight", scheme, (meta.n, meta.k), parts, rule)


def _codes(module: Module, meta: Meta, highest: int) -> PackedDownGroups:
    """The words, checked: of their type (or as floats of the same bytes), and as many as the weights need."""
    packing = PACKINGS[PACKING_OF[meta.settings.nbits]]
    floats = meta.settings.view_as_float
    words = module.need("W_q", RULE, *(PLAIN if floats else (packing.kind,)))
    rows, width = _grouped(meta)
    size = 4 if packing.kind == "I32" else 1
    packed = -(-rows // packing.per_word) if packing.kind == "I32" else rows // packing.per_word
    stored = 8 * size * width // words.dtype.bits
    if rows % packing.per_word and packing.kind != "I32":
        module.fail(f"has {rows} rows of groups, which do not fill words of {packing.per_word} codes")
    if words.shape != (packed, stored) or words.bytes != packed * width * size:
        module.wrong(words, f"shape {[packed, stored]}, the codes of {meta.n} x {meta.k} weights")
    flat = replace(words, kind=packing.kind, shape=(packed * width,))
    return PackedDownGroups(flat, packing, meta.k, highest)


def _grouped(meta: Meta) -> tuple[int, int]:
    """Rows and columns of the matrix whose codes are packed."""
    settings: Settings = meta.settings
    count, size = meta.n * meta.k, settings.group_size or 1
    if not settings.channel_wise:
        return meta.n, meta.k
    return (count // size, size) if settings.axis == 1 else (size, count // size)


def _values(module: Module, leaf: str, meta: Meta) -> tuple[Granularity, Part]:
    tensor: DiskTensor = module.need(leaf, RULE, *FLOATS)
    if not meta.settings.channel_wise:
        if tensor.shape not in ONE:
            module.wrong(tensor, "a single number, for channel_wise is false")
        return TENSOR, Shared(tensor, (1,))
    size, along = meta.settings.group_size or 1, meta.settings.axis == 1
    groups = meta.n * meta.k // size
    if tensor.shape != ((groups, 1) if along else (1, groups)):
        module.wrong(tensor, f"shape {[groups, 1] if along else [1, groups]}, one for each group")
    flat = replace(tensor, shape=(groups,))
    grain = grain_of(meta.settings, size, meta.k)
    return grain, AlongGroups(flat, size, meta.k, grain.k or meta.k) if along else DownGroups(flat, meta.k)
